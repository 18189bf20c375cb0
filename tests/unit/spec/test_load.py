"""Loading: every mistake at once, each with its field, its line, what is allowed and the fix."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dartes.errors import ConfigurationError
from dartes.spec import InvalidJobError, LoadedJob, load_job, parse_job_text
from dartes.spec.yaml_text import read_yaml, write_yaml

Load = Callable[[dict[str, Any]], LoadedJob]
Problems = Callable[[dict[str, Any]], dict[str, str]]
EXAMPLES = Path(__file__).parents[3] / "examples"
JOB = """\
apiVersion: dartes.dev/v1alpha1
kind: DartESJob
metadata: {name: small}
spec:
  model: {source: builtin://addition}
  dataset: {source: builtin://addition}
  task: {kind: addition}
  es: {iterations: 20}
"""


def refused(text: str) -> InvalidJobError:
    with pytest.raises(InvalidJobError) as raised:
        parse_job_text(text, "job.yaml", Path())
    return raised.value


def test_the_example_loads_as_written() -> None:
    loaded = load_job(EXAMPLES / "addition.yaml")
    spec = loaded.job.spec
    assert loaded.job.metadata.name == "addition"
    assert loaded.warnings == ()
    assert loaded.base_dir == EXAMPLES
    assert (spec.es.population_size, spec.es.sigma, spec.es.batch_size) == (32, 0.003, 128)
    assert spec.dataset.max_problems == 1000
    (held_out,) = spec.evaluation.sets
    assert (held_out.name, held_out.dataset.split) == ("held-out", "test")
    assert spec.task_of(held_out) == spec.task


def test_an_invalid_job_is_the_users_mistake() -> None:
    assert issubclass(InvalidJobError, ConfigurationError)
    assert InvalidJobError.exit_code == 64


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("spec.es.sigma", "lots", "'lots' is not a number; allowed: above 0, at most 1"),
        ("spec.es.sigma", "0.001", "'0.001' is not a number; allowed: above 0, at most 1; remove the quotes"),
        ("spec.es.sigma", 0, "0 is too small; allowed: above 0, at most 1; without noise all members are"),
        ("spec.es.sigma", float("nan"), "nan is not a finite number"),
        ("spec.es.populationSize", "lots", "'lots' is not an integer; allowed: 2 to 4096"),
        (
            "spec.es.populationSize",
            1,
            "1 is too small; allowed: 2 to 4096; a population of one has no spread",
        ),
        ("spec.es.populationSize", 5000, "5000 is too large; allowed: 2 to 4096"),
        ("spec.es.populationSize", 30.0, "30.0 is not an integer; allowed: 2 to 4096; write 30"),
        ("spec.es.populationSize", True, "true is not an integer"),
        ("spec.es.antithetic", "yes", "write true without quotes"),
        ("spec.es.masterDtype", "BFloat16", "'BFloat16' is not one of the choices; allowed: Float32"),
        ("spec.model.dtype", "bfloat16", "allowed: Float32 or BFloat16 or Float16; did you mean BFloat16?"),
        ("spec.model.source", "ftp://host/model", "unknown scheme; allowed: builtin://, file://, hf://"),
        ("spec.model.source", "hf://a/b/c", "not a repository's name; allowed: hf://org/name"),
        (
            "spec.generation.stop",
            "END",
            "'END' is not a list; allowed: a list of at most 16 texts; write ['END']",
        ),
        ("spec.generation.stop", ["x"] * 17, "too long (17 entries); allowed: 0 to 16 entries"),
        (
            "spec.task.prompt",
            5,
            "5 is not a text; allowed: a text of at most 16384 characters; put it in quotes",
        ),
        (
            "spec.dataset.filters",
            {"a": "3"},
            "'3' is not a list; allowed: a list of at most 64 values; write ['3']",
        ),
        (
            "spec.dataset.filters",
            {"a": 3},
            "3 is not a list; allowed: a list of at most 64 values; write [3]",
        ),
        ("spec.dataset.filters", {"a": [True]}, "true is not an integer or a text; "),
        ("spec.dataset.filters", {"a": [1.5]}, "1.5 is not an integer or a text; "),
        ("spec.dataset.filters", {"a": []}, "too short (0 entries); allowed: 1 to 64 entries"),
        ("spec.task.options", {"width": [1]}, "a list of 1 item is not an integer or a text"),
        ("spec.task", [], "a list of 0 items is not a map of fields"),
        (
            "metadata.name",
            "My.Job",
            "no dots, at most 40 characters (room for -worker-1023-9); for example my-job",
        ),
        (
            "spec.workers.resources.limits",
            {"memory": "lots"},
            "'lots' is not a quantity; write for example 4, 500m or 20Gi",
        ),
        ("spec.workers.resources.limits", {"cpu": -1}, "-1 is not a quantity"),
        (
            "spec.workers.resources.requests",
            {"cpu": 0.5},
            "0.5 is not an integer or a text; allowed: an integer or a text; put it in quotes",
        ),
        ("metadata.name", "x" * 41, "too long (41 characters); allowed: 1 to 40 characters"),
        ("metadata.name", "9lives", "beginning with a letter"),
        ("apiVersion", "dartes.dev/v1", "allowed: dartes.dev/v1alpha1"),
    ],
)
def test_a_wrong_value_says_what_is_allowed(problems: Problems, path: str, value: object, words: str) -> None:
    found = problems({path: value})
    (where,) = found
    assert where.startswith(path)
    assert words in found[where]


def test_every_mistake_is_reported_at_once_in_the_order_of_the_file() -> None:
    text = JOB.replace(
        "{iterations: 20}", "{iterations: 20, epochs: 2, sigma: lots, seed: -1, populationsize: 3}"
    )
    error = refused(text.replace("small", "Small") + "  workers:\n    replicas: 0\n")
    assert [problem.path for problem in error.problems] == [
        "metadata.name",
        "spec.es.epochs",
        "spec.es.populationsize",
        "spec.es.seed",
        "spec.es.sigma",
        "spec.workers.replicas",
    ]
    assert [problem.line for problem in error.problems] == [3, 8, 8, 8, 8, 10]
    assert str(error).startswith("job.yaml: 6 problems\n  line 3: metadata.name: 'Small'")


def test_filters_take_integers_for_the_texts_that_they_are_compared_as(load: Load) -> None:
    filters = load({"spec.dataset.filters": {"level": [3, "4"]}}).job.spec.dataset.filters
    assert filters == {"level": ("3", "4")}


def test_a_list_is_not_too_short_for_an_item_that_is_wrong(problems: Problems) -> None:
    assert list(problems({"spec.dataset.filters": {"a": [False]}})) == ["spec.dataset.filters.a[0]"]
    wrong = problems({"spec.evaluation.sets": [{"name": 3, "dataset": {"source": "x"}}]})
    assert list(wrong) == ["spec.evaluation.sets[0].name"]


def test_a_list_of_maps_is_not_advised_for_a_text(problems: Problems) -> None:
    assert "write [" not in problems({"spec.evaluation.sets": "test"})["spec.evaluation.sets"]


def test_a_part_of_a_mix_without_a_share_is_among_the_problems(problems: Problems) -> None:
    part = {"source": "builtin://addition"}
    mix = {"mix": [{**part, "weight": 1000}, part]}
    found = problems({"spec.dataset": mix, "spec.workers.replicas": 0})
    assert list(found) == ["spec.dataset.mix[1].weight", "spec.workers.replicas"]
    assert found["spec.dataset.mix[1].weight"].startswith("1.0 of 1001.0 in all gives this part no problem")
    # With a batch size that is itself wrong there are no shares yet.
    assert list(problems({"spec.dataset": mix, "spec.es.batchSize": 0})) == ["spec.es.batchSize"]


def test_a_rule_broken_only_by_another_mistake_is_not_reported_twice(problems: Problems) -> None:
    assert list(problems({"spec.es.iterations": "many"})) == ["spec.es.iterations"]
    found = problems({"spec.es.antithetic": True, "spec.es.populationSize": "odd"})
    assert list(found) == ["spec.es.populationSize"]


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("spec.es.population_size", "did you mean populationSize?"),
        ("spec.es.learningrate", "did you mean learningRate?"),
        ("spec.es.lr", "did you mean learningRate?"),
        ("spec.es.populaton", "did you mean populationSize?"),
        ("spec.es.iteration", "did you mean iterations?"),
        ("spec.sigma", "did you mean spec.es.sigma?"),
        ("spec.workers.max_new_tokens", "did you mean spec.generation.maxNewTokens?"),
        ("spec.dart.ratio", "did you mean spec.dart.replay.ratio?"),
        ("es", "did you mean spec.es?"),
        ("spec.source", "did you mean spec.model.source or spec.dataset.source"),
        ("spec.evaluation.every", "did you mean everyIterations?"),
        ("spec.dart.zzz", "allowed here: enabled, reweighting, history"),
    ],
)
def test_an_unknown_field_is_refused_with_the_right_name(problems: Problems, path: str, words: str) -> None:
    found = problems({path: 1})
    assert list(found) == [path]
    assert found[path].startswith("unknown field")
    assert words in found[path]


def test_a_missing_field_says_what_to_write(problems: Problems) -> None:
    assert problems({"spec.model": {}}) == {
        "spec.model.source": "required, but not set; for example hf://org/name, builtin://addition "
        "or a folder"
    }
    assert problems({"spec.dataset": {}})["spec.dataset.source"].endswith("source: builtin://addition")


def test_a_field_that_is_null_is_not_set(load: Load, problems: Problems) -> None:
    assert load({"spec.dart": None, "spec.es.sigma": None}).job.spec == load({}).job.spec
    assert "required" in problems({"spec.model": None})["spec.model"]
    assert "unknown field" in problems({"spec.nonsense": None})["spec.nonsense"]


def test_numbers_are_read_as_people_write_them() -> None:
    job = parse_job_text(JOB.replace("20}", "20, sigma: 1e-3, learningRate: 5e-4}"), "job.yaml", Path()).job
    assert (job.spec.es.sigma, job.spec.es.learning_rate) == (0.001, 0.0005)


def test_names_of_evaluation_sets_differ(problems: Problems) -> None:
    dataset = {"source": "builtin://addition"}
    found = problems({"spec.evaluation.sets": [{"name": "a", "dataset": dataset}] * 2})
    assert found == {"spec.evaluation.sets[1].name": "'a' already names sets[0]; give every set its own name"}


def test_volumes_that_reach_the_node_or_the_api_are_refused(problems: Problems) -> None:
    token = {"sources": [{"secret": {"name": "x"}}, {"serviceAccountToken": {"path": "token"}}]}
    found = problems(
        {
            "spec.workers.volumes": [
                {"name": "a", "emptyDir": {}},
                {"name": "b", "hostPath": {"path": "/"}},
                {"name": "c", "projected": token},
            ]
        }
    )
    assert found == {
        "spec.workers.volumes[1].hostPath": "hostPath reaches the files of a node: mount a "
        "persistentVolumeClaim, an image or an emptyDir instead",
        "spec.workers.volumes[2].projected.sources[1].serviceAccountToken": "training pods hold no API "
        "token: remove serviceAccountToken",
    }


@pytest.mark.parametrize("amount", [0, 4, "4", "0.5", "500m", "20Gi", "1e3", "1.5G", "100k", "+1", ".5"])
def test_amounts_are_read_as_kubernetes_writes_them(load: Load, amount: object) -> None:
    limits = load({"spec.coordinator.resources": {"limits": {"cpu": amount}}}).job.spec.coordinator.resources
    assert limits.limits == {"cpu": amount}


def test_a_batch_larger_than_the_problems_taken_is_refused(problems: Problems) -> None:
    found = problems({"spec.dataset.maxProblems": 100})
    assert found == {
        "spec.es.batchSize": "200 is larger than the data set (dataset.maxProblems is 100); "
        "allowed: at most 100"
    }


def test_more_workers_than_leases_is_a_warning(load: Load) -> None:
    (warning,) = load({"spec.workers.replicas": 5, "spec.es.populationSize": 4}).warnings
    assert warning.startswith("spec.workers.replicas: 5 workers share 4 leases")
    assert (
        load({"spec.workers.replicas": 5, "spec.es.populationSize": 4, "spec.es.slicesPerMember": 2}).warnings
        == ()
    )


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("", 0, "the file is empty"),
        ("# nothing\n", 0, "the file is empty"),
        ("- a\n", 1, "a job is a map that begins with apiVersion: dartes.dev/v1alpha1, not a list of 1 item"),
        ("null\n", 1, "not null"),
        ("a: [1\nb: 2\n", 2, "not valid YAML"),
        ("a: b: c\n", 1, "not valid YAML"),
        ("\ta: 1\n", 1, "not valid YAML"),
        (JOB + "---\n" + JOB, 9, "a second document begins here; keep one job per file"),
        ("a: &x [*x]\n", 1, "contains itself"),
        ("a: *x\n", 1, "the alias *x has no anchor"),
        ("a: !!python/object:os.system {}\n", 1, "the tag"),
        ("a: 1\n<<: {b: 1}\n", 2, "merge keys"),
        ("? [a]\n: 1\n", 1, "must be a simple text"),
        ("a: !" + "x" * 5000, 1, "the tag !xxx"),
        ("a: " + "[" * 100, 1, "nested deeper than 64 levels"),
        ("a: [" + "1," * 30_000 + "]", 1, "more than 20000 values"),
        ("a: 1\nb: \x07\n", 2, "not valid YAML"),
    ],
)
def test_text_that_is_no_job_says_why(text: str, line: int, words: str) -> None:
    (problem,) = refused(text).problems
    assert words in problem.message
    assert len(problem.message) <= 300
    assert problem.line == line


def test_an_alias_bomb_is_refused_before_it_is_expanded() -> None:
    layers = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    layers += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 30)]
    (problem,) = refused("\n".join(layers)).problems
    assert "values once aliases are expanded" in problem.message


def test_a_key_given_twice_is_refused_with_both_lines() -> None:
    error = refused(JOB + "  workers:\n    replicas: 1\n    replicas: 2\n")
    (problem,) = error.problems
    assert str(problem) == "line 11: spec.workers.replicas: given twice, first in line 10; keep one of them"


def test_files_that_cannot_be_read_say_why(tmp_path: Path) -> None:
    for name, content, words in [
        ("large.yaml", b"#" * (1024 * 1024 + 1), "larger than 1048576 bytes (1 MiB)"),
        ("latin.yaml", JOB.encode() + b"# \xe9\n", "line 9: byte 206 is not UTF-8"),
        ("utf16.yaml", JOB.encode("utf-16"), "is not UTF-8"),
    ]:
        (tmp_path / name).write_bytes(content)
        with pytest.raises(InvalidJobError) as raised:
            load_job(tmp_path / name)
        assert words in str(raised.value)
        assert str(raised.value).startswith(str(tmp_path / name))
    with pytest.raises(InvalidJobError, match="No such file"):
        load_job(tmp_path / "missing.yaml")
    with pytest.raises(InvalidJobError, match="Is a directory"):
        load_job(tmp_path)


def test_a_byte_order_mark_is_no_mistake(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_bytes(b"\xef\xbb\xbf" + JOB.encode())
    assert load_job(tmp_path / "job.yaml").job.metadata.name == "small"


def test_a_long_value_is_cut_and_odd_names_are_quoted(problems: Problems) -> None:
    (problem,) = refused(JOB.replace("kind: addition", f"kind: {'x' * 500}")).problems
    assert len(problem.value) == 60
    found = problems({"spec.task.options": {"n" * 70: 1}})
    assert list(found.values()) == ["the name '" + "n" * 58 + "… has 70 characters; allowed: 1 to 63"]
    assert list(problems({"spec.a b": 1})) == ["spec['a b']"]


def test_a_flood_of_mistakes_is_cut_short() -> None:
    error = refused(JOB + "".join(f"  wrong{n}: 1\n" for n in range(200)))
    assert len(error.problems) == 200
    assert str(error).endswith("and 150 more problems")


_json = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5000) | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
_paths = st.sampled_from(
    [
        "spec",
        "spec.es",
        "spec.es.sigma",
        "spec.es.seed",
        "spec.evaluation.sets",
        "spec.dataset.columns",
        "spec.task.options",
        "spec.task.kind",
        "spec.model.source",
        "spec.workers.engine",
        "metadata",
        "metadata.name",
        "spec.generation.stop",
        "spec.checkpoint.weights",
    ]
)


@settings(max_examples=60, deadline=None)
@given(path=_paths, value=_json)
def test_whatever_stands_in_a_field_the_job_loads_or_says_where_it_is_wrong(path: str, value: object) -> None:
    job = read_yaml(JOB).value
    assert isinstance(job, dict)
    place: Any = job
    *parents, name = path.split(".")
    for parent in parents:
        place = place.setdefault(parent, {})
    place[name] = value
    try:
        parse_job_text(write_yaml(job), "job.yaml", Path())
        messages = ["fine"]
    except InvalidJobError as error:
        messages = [problem.message for problem in error.problems]
    assert all(messages)


@pytest.mark.parametrize("bad", ["../x", "Mine", "a/b", ".", "..", "-a", "a\n"])
def test_a_name_of_an_object_is_refused_where_it_can_be_none(bad: str) -> None:
    job: Any = read_yaml(JOB).value
    job["spec"]["checkpoint"] = {"volume": {"claimName": bad}}
    with pytest.raises(InvalidJobError) as caught:
        parse_job_text(write_yaml(job), "job.yaml", Path())
    message = {p.path: p.message for p in caught.value.problems}["spec.checkpoint.volume.claimName"]
    assert "is not spelt as it must be; allowed: lower-case letters, digits, '-' and '.'" in message


@pytest.mark.parametrize("good", ["a", "a.b-c", "0", "team.example.com"])
def test_a_name_of_an_object_may_have_dots_and_digits(good: str) -> None:
    job: Any = read_yaml(JOB).value
    job["spec"]["checkpoint"] = {"volume": {"claimName": good}}
    parse_job_text(write_yaml(job), "job.yaml", Path())
