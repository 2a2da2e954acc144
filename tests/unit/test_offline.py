"""Manifests judged without a cluster: what is read, what is refused in one line, what admission makes of them.

Excluded: the commands as processes (tests/integration/test_offline_tools.py); the rules themselves (conformance).
"""

import argparse
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from handlers.cachebackend.inject import Options
from warmlog import cli, flags, identity, inject, offline, validate
from warmlog import documents as manifests

BACKEND: dict[str, Any] = {
    "apiVersion": "inferencecache.io/v1alpha1",
    "kind": "CacheBackend",
    "metadata": {"name": "kv", "namespace": "team-a"},
    "spec": {"runtime": "VLLM", "engineSelector": {"matchLabels": {"app": "vllm"}}},
}
POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "engine", "namespace": "team-a", "labels": {"app": "vllm"}},
    "spec": {"containers": [{"name": "vllm", "image": "vllm/vllm-openai", "args": ["--model=m"]}]},
}
SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.dates() | st.binary(max_size=3)
)
KEYS = st.text(max_size=6) | st.integers() | st.none() | st.dates()
SHAPES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3))


def written(path: Path, *documents: Any) -> str:
    path.write_text(yaml.safe_dump_all(documents))
    return str(path)


def documents(tmp_path: Path, *bodies: Any) -> list[manifests.Document]:
    return manifests.read(written(tmp_path / "given.yaml", *bodies))


def test_lists_are_opened_and_empty_documents_skipped(tmp_path: Path) -> None:
    listed = {"apiVersion": "v1", "kind": "List", "items": [BACKEND, POD]}
    found = documents(tmp_path, listed, None, POD)
    assert [one.kind for one in found] == ["cachebackends.inferencecache.io", "pods", "pods"]


def test_a_directory_is_read_by_name_and_only_its_manifests(tmp_path: Path) -> None:
    written(tmp_path / "b.yaml", POD)
    (tmp_path / "a.json").write_text(json.dumps(BACKEND))
    (tmp_path / "notes.txt").write_text("no: manifest")
    assert [one.body["kind"] for one in manifests.read(str(tmp_path))] == ["CacheBackend", "Pod"]


def test_no_namespace_is_default(tmp_path: Path) -> None:
    body = {**POD, "metadata": {"generateName": "engine-"}}
    assert documents(tmp_path, body)[0].key.namespace == "default"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[1, 2", "while parsing a flow sequence"),
        ("just text", "has no kind"),
        ("kind: 3", "has no kind"),
        ("kind: Pod\nmetadata: {}", "neither metadata.name nor metadata.generateName"),
        ("kind: Pod\nmetadata: {name: 3}", "the name 3 of a Pod is no string; put it in quotes"),
        ("kind: Pod\nmetadata: {name: x, namespace: 3}\napiVersion: v1", "the namespace 3 of x is no string"),
        ("kind: Pod\nmetadata: {name: x}\nmetadata: {name: y}", "line 3: the key 'metadata' stands twice"),
        ('{"kind": "Pod", "metadata": {"name": "x", "name": "y"}}', "the key 'name' stands twice"),
        ("kind: Pod\nmetadata: {name: x}", "a Pod has no apiVersion"),
        (
            "kind: CacheBackend\nmetadata: {name: x}\napiVersion: inferencecache.io/v2",
            "write inferencecache.io/v1alpha1",
        ),
        (
            "kind: Pod\nmetadata: {name: x}\napiVersion: v1\nspec: 5",
            "Pod x is no Pod: Expected `object`, got `int` - at",
        ),
        ("kind: Pod\nmetadata: {name: x, labels: 5}\napiVersion: v1\nspec: {containers: []}", "at `$.metadata.labels`"),
        ("[" * 3000, "nested too deeply"),
        ("kind: List\nitems: 3", "items of a List are no list"),
        ("kind: List", "items of a List are no list"),
        ("kind: List\nitems: [3]", "has no kind"),
        ("a: &a [*a]\nkind: Pod\nmetadata: {name: x}", "an alias of itself"),
        ("? [a]\n: b", "unhashable"),
        ('kind: Pod\nmetadata: {name: "\\ud800"}', "is no Unicode text"),
        ("kind: Pod\nmetadata: {name: x, labels: {3: y}}", "the key 3 is no string; put it in quotes"),
        ("kind: Pod\nmetadata: {name: x}\nspec: .inf", "inf is no number of JSON"),
    ],
)
def test_what_is_no_manifest_is_one_line_that_names_the_file(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "given.yaml"
    path.write_text(text)
    with pytest.raises(cli.Failure) as failed:
        manifests.read(str(path))
    assert says in str(failed.value)
    assert str(failed.value).startswith(f"{path}: ")
    assert "\n" not in str(failed.value)


def test_a_list_of_one_kind_is_opened(tmp_path: Path) -> None:
    """As an API server lists them: its items do not say what they are."""
    bare = {key: value for key, value in BACKEND.items() if key not in ("kind", "apiVersion")}
    listed = {"apiVersion": BACKEND["apiVersion"], "kind": "CacheBackendList", "metadata": {}, "items": [bare]}
    assert documents(tmp_path, listed)[0].body == BACKEND


def test_merged_keys_stand_once(tmp_path: Path) -> None:
    (tmp_path / "given.yaml").write_text(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: &m {name: a}\ndata: {<<: *m, name: b}\n"
    )
    assert manifests.read(str(tmp_path / "given.yaml"))[0].body["data"] == {"name": "b"}


@pytest.mark.parametrize("tool", [inject, validate, identity])
@pytest.mark.parametrize(
    ("words", "says"),
    [
        ({"file": ""}, "a path is empty"),
        ({"file": "-", "state": "-"}, "standard input is read once"),
        ({"file": "-", "state": "a.yaml,-"}, "standard input is read once"),
    ],
)
def test_paths_that_cannot_be_meant(tool: Any, words: dict[str, str], says: str) -> None:
    with pytest.raises(flags.UsageError, match=says):
        tool.run(resolved(tool, **words), None)


def resolved(tool: Any, **words: str) -> flags.Values:
    environ = {f"WARMLOG_{name.upper()}": value for name, value in words.items()}
    return flags.resolve(argparse.Namespace(), tool.FLAGS, environ)


def test_an_old_form_of_something_else_is_not_taken_for_none(tmp_path: Path) -> None:
    new, old = written(tmp_path / "new.yaml", BACKEND), written(tmp_path / "old.yaml", POD)
    with pytest.raises(
        cli.Failure, match=r"old\.yaml: none of its objects has kind, namespace and name of one in .*new"
    ):
        validate.run(resolved(validate, file=new, old=old), argparse.Namespace())


def test_what_the_state_cannot_tell_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pod, state = written(tmp_path / "pod.yaml", POD), written(tmp_path / "state.yaml", {**BACKEND, "spec": 5})
    assert inject.run(resolved(inject, file=pod, state=state), argparse.Namespace()) == 0
    said = capsys.readouterr().err
    assert "state.yaml: CacheBackend kv counts for nothing: spec: expected `object`, got `int`" in said


def test_bytes_that_are_no_text_and_files_that_are_not_there(tmp_path: Path) -> None:
    (tmp_path / "given.yaml").write_bytes(b"\xff\xfe\x00")
    for path, says in (("given.yaml", "utf-8"), ("absent.yaml", "No such file")):
        with pytest.raises(cli.Failure, match=says):
            manifests.read(str(tmp_path / path))


def test_a_pod_is_wired_to_the_backend_of_the_state(tmp_path: Path) -> None:
    backend, pod = documents(tmp_path, BACKEND, POD)
    outcome = offline.admit(pod, offline.world_of([backend]), Options())
    assert outcome.body["metadata"]["annotations"]["inferencecache.io/injected-by"] == "team-a/kv"
    assert "--kv-transfer-config" in outcome.body["spec"]["containers"][0]["args"]
    assert [name for name, _ in outcome.decisions] == ["mpod.inferencecache.io"]


def test_a_pod_of_another_namespace_is_left_alone(tmp_path: Path) -> None:
    backend, pod = documents(tmp_path, BACKEND, {**POD, "metadata": {**POD["metadata"], "namespace": "team-b"}})
    assert offline.admit(pod, offline.world_of([backend]), Options()).body == pod.body


def test_schema_problems_name_field_and_remedy(tmp_path: Path) -> None:
    (backend,) = documents(tmp_path, {**BACKEND, "spec": {"runtime": "TGI", "replicas": -1}})
    assert [one.field for one in offline.schema_problems(backend)] == ["spec.runtime", "spec.replicas"]


def test_an_update_is_refused_only_for_what_it_introduces(tmp_path: Path) -> None:
    spec = {**BACKEND["spec"], "remoteStorage": {"provider": "LMCacheServer", "ownership": "External"}}
    (new,) = documents(tmp_path, {**BACKEND, "spec": spec})
    world = offline.world_of([])
    assert offline.admit(offline.defaulted(new), world, Options()).refused
    assert not offline.admit(offline.defaulted(new), world, Options(), old=new).refused


def test_json_escapes_are_one_character(tmp_path: Path) -> None:
    (tmp_path / "given.json").write_text(
        json.dumps({**POD, "metadata": {**POD["metadata"], "annotations": {"a": "😀"}}})
    )
    (pod,) = manifests.read(str(tmp_path / "given.json"))
    assert pod.body["metadata"]["annotations"] == {"a": "😀"}


@given(shape=SHAPES, at=st.sampled_from(["spec", "metadata", "status", "kind", "apiVersion"]), pod=st.booleans())
def test_any_shape_is_read_or_refused_in_one_line(
    tmp_path_factory: pytest.TempPathFactory, shape: Any, at: str, pod: bool
) -> None:
    path = tmp_path_factory.getbasetemp() / "shape.yaml"
    path.write_text(
        yaml.safe_dump({**(POD if pod else BACKEND), at: shape}, allow_unicode=True), errors="surrogatepass"
    )
    lines = []
    try:
        for one in manifests.read(str(path)):
            if not offline.schema_problems(one):
                offline.admit(offline.defaulted(one), offline.world_of([one]), Options())
    except cli.Failure as failed:
        lines = str(failed).splitlines()
    assert len(lines) <= 1
