"""The cluster of the tests in this folder: which one and why, its images, namespaces, and the tests' order.

The choice is printed after the collection. Without a cluster the tests are skipped with the reason; where
DARTES_REQUIRE_CLUSTER=1 says that there must be one, they fail.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from . import definitions
from .held import HeldCluster, NotHereError, OwnCluster
from .keeping import Keeper, NoClusterError
from .kwok_jobs import Kwok
from .lacking import lacking
from .lives import Lives, lives_under, proxy_before
from .provider import choose, look_around
from .release import Release
from .releases import Releases

HERE = Path(__file__).parent
KEEPER = pytest.StashKey[Keeper]()
EXTRAS = {"kwok": "kwok", "metrics-server": "metrics_server", "kueue": "kueue"}
"""Fixtures that start an extra of `testcluster.extras`, whose programs are built before the first test."""
LAST = ("lossy_cluster", "bare_host")
"""Fixtures whose tests run after all others, in this order: they take the shared cluster down."""


def is_ours(item: pytest.Item) -> bool:
    """Whether a test is in this folder."""
    return HERE in item.path.parents


def fixtures_of(item: pytest.Item) -> list[str]:
    """The names of all fixtures that a test uses, however indirectly."""
    return list(getattr(item, "fixturenames", []))


def keeper_of(config: pytest.Config) -> Keeper:
    """The session's keeper; the choice is made when it is first asked for."""
    if KEEPER not in config.stash:
        config.stash[KEEPER] = Keeper(choose(look_around()))
    return config.stash[KEEPER]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the tests that take the shared cluster down behind all others."""
    ranks = {name: rank for rank, name in enumerate(LAST, start=1)}
    items.sort(key=lambda item: max((ranks.get(name, 0) for name in fixtures_of(item)), default=0))


def pytest_report_collectionfinish(config: pytest.Config, items: list[pytest.Item]) -> str | None:
    """Say which cluster the tests use, and why."""
    if not any(is_ours(item) for item in items):
        return None
    return f"cluster tests: {keeper_of(config).choice.reason}"


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> None:
    """Build what is missing before the first test, whose time limit is not meant for a compiler."""
    ours = [item for item in session.items if is_ours(item)]
    if not ours or session.config.option.collectonly:
        return
    keeper = keeper_of(session.config)
    used = {name for item in ours for name in fixtures_of(item)}
    keeper.prepare(
        with_images=bool(used & {"images", "lossy_release"}),
        extras=[name for name, fixture in EXTRAS.items() if fixture in used],
    )


@pytest.fixture(scope="session")
def keeper(pytestconfig: pytest.Config) -> Iterator[Keeper]:
    """The session's keeper, which brings down at the end what it brought up."""
    keeper = keeper_of(pytestconfig)
    yield keeper
    keeper.finish()


@pytest.fixture(scope="session")
def cluster(keeper: Keeper) -> Iterator[HeldCluster]:
    """The cluster that nearly all tests share; where it was there before, none of their namespaces stays."""
    if keeper.problem:
        pytest.fail(keeper.problem, pytrace=False)
    try:
        cluster = keeper.shared()
    except NoClusterError as error:
        lacking(str(error))
    yield cluster
    if not keeper.started:
        cluster.delete_namespaces()


@pytest.fixture(scope="session")
def lossy_cluster(keeper: Keeper) -> OwnCluster:
    """A cluster of three nodes in which a silent node is soon missed; takes the place of the shared one."""
    if keeper.problem:
        pytest.fail(keeper.problem, pytrace=False)
    try:
        return keeper.lossy()
    except NoClusterError as error:
        lacking(str(error))


@pytest.fixture
def bare_host(keeper: Keeper) -> None:
    """No cluster on this host: the session's are brought down, for tests that start one themselves."""
    try:
        keeper.clear()
    except NoClusterError as error:
        lacking(str(error))


@pytest.fixture(scope="session")
def images(keeper: Keeper, cluster: HeldCluster) -> Mapping[str, str]:
    """Names of this project's images by target (operator, coordinator, worker), there on every node."""
    if keeper.images_problem:
        pytest.fail(keeper.images_problem, pytrace=False)
    try:
        return cluster.ensure_images()
    except NotHereError as error:
        lacking(str(error))


@pytest.fixture
def namespace(cluster: HeldCluster) -> Iterator[str]:
    """A new namespace that enforces PodSecurity `restricted`; deleted afterwards, without waiting."""
    name = cluster.make_namespace()
    yield name
    cluster.delete_namespace(name)


@pytest.fixture(scope="module")
def module_namespace(cluster: HeldCluster) -> Iterator[str]:
    """The same for all tests of a module."""
    name = cluster.make_namespace()
    yield name
    cluster.delete_namespace(name)


@pytest.fixture(scope="session")
def release(keeper: Keeper, cluster: HeldCluster, images: Mapping[str, str]) -> Iterator[Release]:
    """The chart installed with this project's images; removed from a cluster that stays."""
    release = Release(cluster)
    release.install(*registry_of(images))
    yield release
    if not keeper.started:
        release.uninstall()


@pytest.fixture(scope="module")
def alone(cluster: HeldCluster) -> Iterator[None]:
    """No operator of the whole cluster while a module's tests run their own: two would undo each other."""
    release = Release(cluster)
    was_there = release.is_installed()
    if was_there:
        release.scale_operator(0)
    yield
    if was_there:
        release.scale_operator(1)


@pytest.fixture(scope="session")
def definition(cluster: HeldCluster) -> None:
    """The definition of DartESJob, as a release without `crds.create` wants to find it."""
    definitions.apply(cluster)


@pytest.fixture(scope="module")
def releases(
    cluster: HeldCluster, images: Mapping[str, str], definition: None, alone: None
) -> Iterator[Releases]:
    """Installs releases that look after the namespaces that they are given, and removes them afterwards."""
    made = Releases(cluster, registry_of(images))
    yield made
    made.remove()


@pytest.fixture(scope="session")
def kwok(cluster: HeldCluster) -> Kwok:
    """Fake nodes, whose pods run at once and are nothing but objects."""
    start_extra(cluster, "kwok")
    return Kwok(cluster)


@pytest.fixture(scope="module")
def lives(
    cluster: HeldCluster, kwok: Kwok, module_namespace: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Lives]:
    """Lives of one job after another under an operator of the host, behind a proxy that can fail."""
    with proxy_before(cluster) as (proxy, _):
        folder = tmp_path_factory.mktemp("operator")
        with lives_under(module_namespace, kwok, folder, proxy) as lives:
            yield lives


@pytest.fixture(scope="session")
def metrics_server(cluster: HeldCluster) -> None:
    """What a HPA asks for the usage of pods."""
    start_extra(cluster, "metrics-server")


@pytest.fixture(scope="session")
def kueue(cluster: HeldCluster) -> None:
    """Queues with quotas, for namespaces that `Queue.open_to` opens to them."""
    start_extra(cluster, "kueue")


def start_extra(cluster: HeldCluster, name: str) -> None:
    """Start an extra, or skip with the reason where this cluster has none."""
    try:
        cluster.start_extra(name)
    except NotHereError as error:
        lacking(str(error))


@pytest.fixture(scope="session")
def lossy_release(lossy_cluster: OwnCluster) -> Release:
    """The chart installed in the cluster whose nodes are lost."""
    release = Release(lossy_cluster)
    release.install(*registry_of(lossy_cluster.ensure_images()))
    return release


def registry_of(images: Mapping[str, str]) -> tuple[str, str]:
    """The chart's setting with which the operator's image, and so all others, come from where they are."""
    return "--set", f"image.registry={images['operator'].partition('dartes/operator')[0].rstrip('/')}"
