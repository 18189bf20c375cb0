"""Where the test cluster may start, and which tables are its own to delete."""

import json
from pathlib import Path

import pytest

from testcluster.guard import (
    Facts,
    Route,
    Table,
    is_ours,
    kubelets,
    parse_routes,
    parse_tables,
    refusal,
    tables_to_remove,
)
from testcluster.paths import Network

NETWORK = Network("10.188", "10.189", "br-dartes")
TABLES = (Table("ip", "kube-proxy"), Table("ip6", "kube-proxy"))


def test_a_bare_host_may_have_a_cluster() -> None:
    others = (Table("inet", "filter"), Table("ip", "kube-proxy-of-old"))
    default = Route("default", "eth0")
    assert refusal(Facts(tables=others, routes=(default, Route("192.0.2.0/24", "eth0"))), NETWORK) is None


def test_a_foreign_kubelet_is_named_and_refused_even_where_ours_was_up() -> None:
    reason = refusal(Facts(foreign_kubelets=(41, 42), ours_was_up=True), NETWORK)
    assert reason is not None
    assert "pid 41, 42" in reason


@pytest.mark.parametrize("table", TABLES)
def test_a_kube_proxy_table_is_refused_unless_ours_was_up(table: Table) -> None:
    reason = refusal(Facts(tables=(table,)), NETWORK)
    assert reason is not None
    assert f"nft delete table {table.family} kube-proxy" in reason
    assert refusal(Facts(tables=(table,), ours_was_up=True), NETWORK) is None


def test_only_our_own_tables_are_removed() -> None:
    tables = (*TABLES, Table("inet", "filter"))
    assert tables_to_remove(Facts(tables=tables)) == []
    assert tables_to_remove(Facts(tables=tables, ours_was_up=True)) == list(TABLES)


@pytest.mark.parametrize("taken", ["10.188.3.0/24", "10.0.0.0/8", "10.189.0.1"])
def test_addresses_that_the_host_reaches_elsewhere_are_refused(taken: str) -> None:
    reason = refusal(Facts(routes=(Route(taken, "cni0"),)), NETWORK)
    assert reason is not None
    assert taken in reason
    assert "DARTES_TESTCLUSTER_PREFIX" in reason


def test_the_clusters_own_bridge_is_no_conflict() -> None:
    assert refusal(Facts(routes=(Route("10.188.0.0/16", "br-dartes"),)), NETWORK) is None


def test_a_marker_counts_only_in_the_boot_that_wrote_it() -> None:
    marker = json.dumps({"boot": "this"})
    assert is_ours(marker, "this")
    assert not is_ours(marker, "another")


@pytest.mark.parametrize("damaged", ["", "{", "[]", "{}"])
def test_a_damaged_marker_makes_nothing_ours(damaged: str) -> None:
    assert not is_ours(damaged, "this")


def test_tables_are_read_from_what_nft_prints() -> None:
    entries = [{"metainfo": {"version": "1"}}, {"table": {"family": "ip", "name": "kube-proxy", "handle": 1}}]
    assert parse_tables(json.dumps({"nftables": entries})) == (Table("ip", "kube-proxy"),)
    assert parse_tables("") == ()


def test_routes_are_read_from_what_ip_prints() -> None:
    listing = (
        '[{"dst": "default", "dev": "eth0", "flags": []}, {"type": "unreachable", "dst": "198.51.100.0/24"}]'
    )
    assert parse_routes(listing) == (Route("default", "eth0"), Route("198.51.100.0/24", ""))


def test_a_dead_kubelet_that_nobody_has_buried_yet_hinders_nothing(tmp_path: Path) -> None:
    for pid, name, state in ((7, "kubelet", "S"), (8, "kubelet", "Z"), (9, "bash", "S")):
        folder = tmp_path / str(pid)
        folder.mkdir()
        (folder / "comm").write_text(f"{name}\n")
        (folder / "stat").write_text(f"{pid} ({name}) {state} 1 1")
    gone = tmp_path / "10"
    gone.mkdir()
    (gone / "comm").write_text("kubelet\n")
    assert kubelets(tmp_path) == [7]
