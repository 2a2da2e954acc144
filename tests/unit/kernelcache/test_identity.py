"""Who a Pod is: what does not matter changes nothing, what an engine would treat as different never looks the same."""

import json
import random
from typing import Any

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from crds.kernelcache import Footprints
from handlers.kernelcache import identity, modeluri, names
from tests.support import kernelcaches as kc

Object = dict[str, Any]


def of(uri: str = "hf://org/m", **container: Any) -> identity.Identity:
    found = kc.pod(annotations={**kc.ANNOTATIONS, names.SOURCE_URI: uri}, **container)
    return identity.of(found, "team-a")


def compat(**container: Any) -> str:
    found = of(**container).footprints.compatibility_footprint
    assert found
    return found


# Launches, as the engine's own parser would take them -----------------------------------------------------------------

INTS = ("--tensor-parallel-size", "--pipeline-parallel-size", "--max-model-len", "--block-size", "--max-num-seqs")
SPELLINGS = {
    "--tensor-parallel-size": ("--tensor-parallel-size", "-tp", "--tensor_parallel_size", "--tensor-parallel_size"),
    "--pipeline-parallel-size": ("--pipeline-parallel-size", "-pp", "--pipeline_parallel-size"),
    "--quantization": ("--quantization", "-q"),
    "--compilation-config": ("--compilation-config", "-cc", "--compilation_config"),
}
#: Option -> values that the engine tells apart.
VALUES: dict[str, tuple[str | None, ...]] = {
    **dict.fromkeys(INTS, ("1", "2", "8", "4096")),
    "--dtype": ("float16", "bfloat16", "float32", "auto"),
    "--quantization": ("awq", "gptq", "fp8"),
    "--kv-cache-dtype": ("auto", "fp8_e4m3", "fp8_e5m2"),
    "--attention-backend": ("FLASHINFER", "FLASH_ATTN"),
    "--compilation-config": ('{"mode":3}', '{"mode":2}', '{"mode":3,"cudagraph_mode":"FULL"}'),
    "--enforce-eager": (None,),
    "--enable-chunked-prefill": (None,),
    "--speculative-config": ('{"num_speculative_tokens":2}', '{"num_speculative_tokens":3}'),
    "--optimization-level": ("0", "3"),
    "--enable-expert-parallel": (None,),
    "--enable-lora": (None,),
    "--data-parallel-size": ("1", "2"),
}
ENV = {
    "VLLM_USE_AOT_COMPILE": ("0", "1"),
    "VLLM_USE_STANDALONE_COMPILE": ("0", "1", "true"),  # to the engine, true is not 1
    "VLLM_FLOAT32_MATMUL_PRECISION": ("high", "medium"),
    "VLLM_PP_LAYER_PARTITION": ("4,8", "8,4"),
    "VLLM_DISABLED_KERNELS": ("a", "a,b"),
    "VLLM_ATTENTION_BACKEND": ("FLASHINFER", "TRITON_ATTN"),
    "TORCHINDUCTOR_MAX_AUTOTUNE": ("0", "1"),
}
HARMLESS = {
    "VLLM_CACHE_ROOT": ("/a", "/b"), "VLLM_LOGGING_LEVEL": ("DEBUG", "INFO"), "VLLM_HOST_IP": ("10.0.0.1", "10.0.0.2"),
    "VLLM_API_KEY": ("k1", "k2"), "VLLM_PORT": ("1", "2"), "HF_TOKEN": ("x", "y"), "TRITON_CACHE_DIR": ("/x", "/y"),
}  # fmt: skip
UNKNOWN = ("--port=8080", "--served-model-name", "--trust-remote-code", "--disable-log-requests")


@st.composite
def meanings(draw: st.DrawFn) -> tuple[dict[str, str | None], dict[str, str]]:
    options = draw(st.dictionaries(st.sampled_from(sorted(VALUES)), st.integers(0, 9), max_size=4))
    env = draw(st.dictionaries(st.sampled_from(sorted(ENV)), st.integers(0, 9), max_size=3))
    return (
        {name: VALUES[name][at % len(VALUES[name])] for name, at in options.items()},
        {name: ENV[name][at % len(ENV[name])] for name, at in env.items()},
    )


@st.composite
def launches(draw: st.DrawFn, options: dict[str, str | None], env: dict[str, str]) -> Object:
    """One of the many ways in which to write the same."""
    words: list[list[str]] = []
    for name in draw(st.permutations(sorted(options))):
        value = options[name]
        spelling = draw(st.sampled_from(SPELLINGS.get(name, (name,))))
        if value is None:
            words.append([spelling])
            continue
        if name == "--compilation-config" and draw(st.booleans()):
            value = json.dumps(json.loads(value), indent=1)
        words.append(draw(st.sampled_from(([spelling, value], [f"{spelling}={value}"]))))
    for one in draw(st.lists(st.sampled_from(UNKNOWN), max_size=2)):
        words.insert(draw(st.integers(0, len(words))), [one])
    flat = [word for group in words for word in group]
    at = draw(st.integers(0, len(words)))
    command = [word for group in words[:at] for word in group]
    literal = [{"name": name, "value": value} for name, value in env.items()]
    for name in draw(st.lists(st.sampled_from(sorted(HARMLESS)), max_size=2, unique=True)):
        literal.append({"name": name, "value": draw(st.sampled_from(HARMLESS[name]))})
    if draw(st.booleans()):
        return {"args": flat, "env": draw(st.permutations(literal))}
    return {"command": ["vllm", "serve", *command], "args": flat[len(command) :], "env": draw(st.permutations(literal))}


@given(st.data(), meanings())
def test_the_same_in_other_words_is_the_same(data: st.DataObject, meaning: Any) -> None:
    assert compat(**data.draw(launches(*meaning))) == compat(**data.draw(launches(*meaning)))


@given(st.data(), meanings(), meanings())
def test_what_an_engine_treats_as_different_never_shares_a_footprint(data: st.DataObject, one: Any, other: Any) -> None:
    assume(one != other)
    first, second = of(**data.draw(launches(*one))), of(**data.draw(launches(*other)))
    assert first.footprints.compatibility_footprint != second.footprints.compatibility_footprint
    assert first.footprints.workload_footprint != second.footprints.workload_footprint


@given(st.permutations([("A", "1"), ("VLLM_USE_AOT_COMPILE", "1"), ("VLLM_X", "2"), ("VLLM_CACHE_ROOT", "/c")]))
def test_the_order_of_the_environment_does_not_matter(env: list[tuple[str, str]]) -> None:
    given = [{"name": name, "value": value} for name, value in env]
    for more in ({}, {"command": ["sh", "-c", "vllm serve"]}, {"envFrom": [{"configMapRef": {"name": "c"}}]}):
        assert of(env=given, **more).footprints == of(env=sorted(given, key=lambda one: one["name"]), **more).footprints


# Opaque launches ------------------------------------------------------------------------------------------------------

OPAQUE: dict[str, list[Object]] = {
    "shells": [
        {"command": ["sh", "-c"], "args": ["vllm serve -tp 2"]},
        {"command": ["sh", "-c"], "args": ["vllm serve -tp 4"]},
        {"command": ["/bin/bash", "-lc", "vllm serve -tp 2"]},
        {"command": ["bash", "/start.sh"], "args": ["-tp", "2"]},
        {"args": ["sh", "-c", "vllm serve -tp 2"]},
        {"command": ["tini", "sh", "-c", "vllm serve -tp 2"]},
    ],
    "what a shell reads": [
        {"command": ["sh", "-c", "vllm serve -tp $TP"], "env": [{"name": "TP", "value": "2"}]},
        {"command": ["sh", "-c", "vllm serve -tp $TP"], "env": [{"name": "TP", "value": "4"}]},
        {"command": ["sh", "-c", "vllm serve -tp $TP"], "env": [{"name": "TP", "valueFrom": {"fieldRef": {}}}]},
    ],
    "another environment": [
        {"command": ["env", "VLLM_USE_V1=0", "vllm", "serve"]},
        {"command": ["env", "VLLM_USE_V1=1", "vllm", "serve"]},
    ],
    "wrappers": [
        {"command": ["tini", "--", "vllm", "serve", "-tp", "2"]},
        {"command": ["tini", "--", "vllm", "serve", "-tp", "4"]},
    ],
    "files": [{"args": ["--config=/etc/a.yaml"]}, {"args": ["--config", "/etc/b.yaml"]}],
    "abbreviations": [
        {"args": ["--tensor-parallel", "2"]},
        {"args": ["--tensor-parallel=4"]},
        {"args": ["--enforce"]},
        {"args": ["--no-enforce"]},
        {"args": ["--max_model", "9000"]},
    ],
    "variables": [
        {"args": ["--max-model-len=$(LEN)"]},
        {"args": ["--max-model-len=$(LEN)"], "env": [{"name": "LEN", "valueFrom": {"configMapKeyRef": {"name": "a"}}}]},
        {"args": ["--max-model-len=$(LEN)"], "env": [{"name": "LEN", "valueFrom": {"configMapKeyRef": {"name": "b"}}}]},
        {"args": ["$(EXTRA)"]},
        {"args": ["$(MORE)"]},
        {"command": ["$(PROGRAM)"]},
        {"args": ["--enforce-eager", "$(EAGER)"]},
        {"args": ["--$(FLAG)=2"]},
    ],
    "sources": [
        {"envFrom": [{"configMapRef": {"name": "a"}}]},
        {"envFrom": [{"configMapRef": {"name": "b"}}]},
        {"envFrom": [{"secretRef": {"name": "a"}}]},
    ],
}  # fmt: skip
ALL = [launch for launches_ in OPAQUE.values() for launch in launches_]


@pytest.mark.parametrize("launch", ALL, ids=str)
def test_an_opaque_launch_says_why_and_matches_only_itself(launch: Object) -> None:
    found = of(**launch)
    assert found.opaque
    assert "launchOpaque" in found.factors
    assert of(**launch).footprints == found.footprints
    assert [other for other in ALL if compat(**other) == found.footprints.compatibility_footprint] == [launch]


@given(st.data(), meanings())
def test_no_opaque_launch_matches_one_that_was_read(data: st.DataObject, meaning: Any) -> None:
    found = of(**data.draw(launches(*meaning)))
    assert not found.opaque
    assert found.footprints.compatibility_footprint not in {compat(**one) for one in random.sample(ALL, 3)}


@pytest.mark.parametrize(
    "launch",
    [
        {"args": ["--max-model-len", "$(LEN)"], "env": [{"name": "LEN", "value": "4096"}]},
        {"args": ["--max-model-len=$(LEN)"], "env": [{"name": "K", "value": "40"}, {"name": "LEN", "value": "$(K)96"}]},
        {"args": ["--max-model-len=1", "--max-model-len=$(LEN)"], "env": [{"name": "LEN", "value": "4096"}]},
        {"args": ["--max-model-len=4096", "--port", "$(PORT)", "--served-model-name=$(NAME)"]},
    ],
)
def test_variables_that_are_known_are_read(launch: Object) -> None:
    found = of(**launch)
    assert not found.opaque
    assert found.factors["option.maxModelLen"] == "4096"


def test_a_dollar_that_is_escaped_is_no_variable() -> None:
    assert not of(args=["--dtype=$$(X)"]).opaque
    assert of(args=["--dtype=$$(X)"]).factors["option.dtype"] == "$(x)"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (["-cc.mode", "3"], ["-cc.mode", "2"]),
        (["-cc.mode=3"], []),
        (["-O3"], ["-O2"]),
        (["--enable-lora", "--no-enable-lora"], ["--no-enable-lora", "--enable-lora"]),
        (["--model=/other"], []),
        (["serve", "/mnt/models"], ["serve", "org/other"]),
        (["--hf-overrides", '{"a":1}'], []),
        (["--max-model-len=1_000"], ["--max-model-len=2_000"]),
        (["--max-model-len=4k"], ["--max-model-len=4K"]),
        (["--enforce-eager=false"], ["--no-enforce-eager"]),
    ],
)
def test_more_that_is_told_apart(one: list[str], other: list[str]) -> None:
    assert compat(args=one) != compat(args=other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (["-O3"], ["--optimization-level", "3"]),
        (["-O", "3"], ["-O=3"]),
        (["-cc.mode=3"], ["--compilation-config.mode", "3"]),
        (["-dp", "2"], ["--data_parallel_size=2"]),
        (["--max-model-len=4k"], ["--max-model-len=4000"]),
        (["--max-model-len=25.6k"], ["--max-model-len", "25600"]),
        (["--dtype=half"], ["--dtype", "float16"]),
        (["--model=/mnt/models"], []),
        (["serve", "/mnt/models/"], []),
        (["--port=1", "--enforce-eager"], ["--enforce-eager", "--port=2"]),
    ],
)
def test_more_that_is_the_same(one: list[str], other: list[str]) -> None:
    assert compat(args=one) == compat(args=other)


def test_the_last_of_two_variables_counts() -> None:
    twice = [{"name": "VLLM_USE_AOT_COMPILE", "value": value} for value in ("0", "1")]
    assert of(env=twice).factors["env.VLLM_USE_AOT_COMPILE"] == "true"
    assert compat(env=twice) == compat(env=twice[1:])


def test_a_variable_from_elsewhere_is_told_by_where() -> None:
    def reference(name: str) -> str:
        return compat(env=[{"name": "VLLM_USE_AOT_COMPILE", "valueFrom": {"configMapKeyRef": {"name": name}}}])

    assert reference("a") == reference("a")
    assert len({reference("a"), reference("b"), compat()}) == 3


# The rest of an identity ----------------------------------------------------------------------------------------------


def test_an_explained_identity_says_where_everything_came_from() -> None:
    found = of(
        command=["vllm", "serve", "-tp=2"],
        args=["--dtype", "half"],
        env=[{"name": "VLLM_BATCH_INVARIANT", "value": "1"}],
    )
    assert found.sources == {
        "option.tensorParallelSize": "command[2]",
        "option.dtype": "args[0]",
        "env.VLLM_BATCH_INVARIANT": "env VLLM_BATCH_INVARIANT",
    }


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ({"labels": {}}, "workload"),
        ({"annotations": {}}, "model-source"),
        ({"annotations": {names.SOURCE_URI: "  "}}, "model-source"),
        ({"annotations": {names.SOURCE_URI: "hf://a:b/c"}}, "model-source"),
        ({"image": "a b"}, "image-whitespace"),
        ({"name": "other"}, "container"),
    ],
)
def test_what_has_no_identity_says_why(changed: Object, code: str) -> None:
    found = identity.of(kc.pod(**changed), "team-a")
    assert found.code == code
    assert found.missing
    assert found.footprints == Footprints()


def test_the_llm_container_and_workload() -> None:
    labels = {names.LLM_NAME: "big", names.LLM_PART_OF: names.LLM_PART}
    pod = kc.pod(labels=labels, name="main")
    found = identity.of(pod, "team-a")
    assert (found.workload_kind, found.workload_name, found.container) == ("LLMInferenceService", "big", "main")
    service = identity.of(kc.pod(), "team-a")
    assert found.footprints.compatibility_footprint == service.footprints.compatibility_footprint
    assert found.footprints.workload_footprint != service.footprints.workload_footprint


def test_seen_before_its_namespace_is_told() -> None:
    pod = kc.pod()
    assert identity.placed(identity.of(pod, ""), "team-a") == identity.of(pod, "team-a")


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        ("s3://b/m?versionId=1", "s3://b/m?versionId=1"),
        ("s3://b/m?X-Amz-Signature=a&versionId=1&X-Amz-Date=b", "s3://b/m?versionId=1"),
        ("https://x/dl?id=B&token=t", "https://x/dl?id=B"),
        ("https://u:p%40x@h:443/a", "https://h:443/a"),
        ("s3://[::1]:9000/b", "s3://[::1]:9000/b"),
        ("pvc://vol", "pvc://vol"),
        ("oci://reg:5000/repo:tag", "oci://reg:5000/repo:tag"),
        ("hf://h:x/y", None),
        ("hf://a b/c", None),
        ("s3://b/%zz", None),
        ("s3://b/\x01", None),
        ("no-scheme/at/all", None),
        ("//host/path", None),
        (":", None),
    ],
)
def test_addresses_of_models(uri: str, expected: str | None) -> None:
    assert modeluri.normalised(uri) == expected


@given(st.text(max_size=60))
@example("s3://key:secret@b/m?sig=secret#secret")
def test_no_address_keeps_its_credentials_and_is_its_own_normal_form(uri: str) -> None:
    found = modeluri.normalised(uri.replace("x", "://").replace("secret", "hunter2"))
    if found is not None:
        assert modeluri.normalised(found) == found
        assert "@" not in found.split("://")[-1].partition("/")[0] or "://" not in found


JSONISH = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)


@given(JSONISH, st.randoms())
def test_json_is_hashed_by_its_meaning(value: Any, shuffle: random.Random) -> None:
    from handlers.kernelcache import normalise

    def shuffled(given: Any) -> Any:
        if isinstance(given, dict):
            keys = list(given)
            shuffle.shuffle(keys)
            return {key: shuffled(given[key]) for key in keys}
        return [shuffled(one) for one in given] if isinstance(given, list) else given

    assume(not isinstance(value, str))
    assert normalise.hashed(json.dumps(value)) == normalise.hashed(json.dumps(shuffled(value), indent=2))


ODD = [
    *("-", "--", "-q", "-qawq", "-O", "-tp", "--dtype", "--no-", "--=", "-cc.", "--compilation-config.", "$(", "$(X)"),
    *("$$", "--enforce-eager", "sh", "tini", "env", "serve", "--config", "--max-model-len", "1e400", "-1"),
]
WORDS = st.text(max_size=20) | st.sampled_from([*ODD, "9" * 5000, "\x00", ""])
VARIABLES = st.lists(
    st.fixed_dictionaries(
        {"name": st.sampled_from(["X", "VLLM_X", "VLLM_CACHE_ROOT", "VLLM_BATCH_INVARIANT", "VLLM_DISABLED_KERNELS"])},
        optional={"value": WORDS, "valueFrom": st.just({"fieldRef": {"fieldPath": "metadata.name"}})},
    ),
    max_size=4,
)


@given(st.lists(WORDS, max_size=6), st.lists(WORDS, max_size=6), VARIABLES, st.text(max_size=30), st.text(max_size=30))
def test_an_identity_is_computed_of_anything(
    command: list[str], args: list[str], env: list[Object], image: str, uri: str
) -> None:
    container = {"command": command, "args": args, "env": env}
    assert of(**container) == of(**container)
    assert of(uri, image=image, **container).missing == of(uri, image=image).missing
    pod = kc.pod(**container)
    after, decision = kc.Cluster().decide(pod)
    assert decision is not None
    assert decision.verdict == "allowed"
    assert after == pod
