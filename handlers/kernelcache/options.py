"""Flags of the engine that decide which kernels it compiles: those that the contract has factors for, and the others.

Rules: spec/kernelcache.md sections 2.1 and 2.6. `FACTORS` is the contract's list. `OTHERS` (ours) are flags that the
engine's own compile key depends on and the contract has no factor for.
"""

from typing import Final, NamedTuple


class Factor(NamedTuple):
    key: str
    kind: str  # of handlers.kernelcache.normalise


#: By spelling, dashes only.
FACTORS: Final[dict[str, Factor]] = {
    spelling: Factor(f"option.{key}", kind)
    for spellings, key, kind in (
        ("--tensor-parallel-size -tp --tp", "tensorParallelSize", "int"),
        ("--pipeline-parallel-size -pp --pp", "pipelineParallelSize", "int"),
        ("--max-model-len", "maxModelLen", "length"),
        ("--dtype", "dtype", "dtype"),
        ("--quantization -q", "quantization", "string"),
        ("--quantization-config", "quantizationConfigHash", "hash"),
        ("--kv-cache-dtype", "kvCacheDtype", "string"),
        ("--block-size", "blockSize", "int"),
        ("--max-num-batched-tokens", "maxNumBatchedTokens", "int"),
        ("--max-num-seqs", "maxNumSeqs", "int"),
        ("--enable-chunked-prefill", "enableChunkedPrefill", "bool"),
        ("--disable-sliding-window", "disableSlidingWindow", "bool"),
        ("--enforce-eager", "enforceEager", "bool"),
        ("--attention-backend", "attentionBackend", "string"),
        ("--compilation-config -cc", "compilationConfigHash", "hash"),
    )
    for spelling in spellings.split()
}

#: Spelling -> the one name that they share. Values count as they are written.
OTHERS: Final[dict[str, str]] = {
    spelling: spellings.split()[0]
    for spellings in (
        "--optimization-level -O",
        "--attention-config -ac",
        "--kernel-config",
        "--speculative-config -sc",
        "--data-parallel-size -dp",
        "--decode-context-parallel-size -dcp",
        "--prefill-context-parallel-size -pcp",
        "--max-loras",
        "--max-lora-rank",
        "--lora-dtype",
        "--model-impl",
        "--runner",
        "--convert",
        "--task",
        "--hf-overrides",
        "--rope-scaling",
        "--rope-theta",
        "--cudagraph-capture-sizes",
        "--max-cudagraph-capture-size",
        "--cuda-graph-sizes",
        "--mm-processor-kwargs",
        "--limit-mm-per-prompt",
        "--all2all-backend",
        "--moe-backend",
        "--additional-config",
        "--revision",
        "--code-revision",
        "--model",
    )
    for spelling in spellings.split()
}
#: Of these, flags without a value.
OTHER_SWITCHES: Final = frozenset(
    ("--enable-expert-parallel", "--enable-lora", "--fully-sharded-loras", "--enable-dbo",
     "--enable-sequence-parallel", "--async-scheduling", "--calculate-kv-scales", "--enable-eplb")
)  # fmt: skip
#: Options of which a single field may be given, `--compilation-config.mode 3`, by the name that their spellings share.
DOTTED: Final = {
    "--compilation-config": "--compilation-config",
    "-cc": "--compilation-config",
    "--quantization-config": "--quantization-config",
    **{flag: name for flag, name in OTHERS.items() if name.endswith("-config")},
}
#: An option's value is in a file, which a manifest does not show.
FILES: Final = frozenset(("--config",))
#: The model is what the storage initialiser puts here; another one is told apart.
MODEL_DIRECTORY: Final = "/mnt/models"


def canonical(flag: str) -> str:
    """As the engine reads the name of a long flag: underscores before the first dot are dashes."""
    if not flag.startswith("--"):
        return flag
    head, dot, rest = flag.partition(".")
    return head.replace("_", "-") + dot + rest


def abbreviates(flag: str) -> bool:
    """Whether the engine would complete this unknown name to a flag that counts. Which one depends on its version."""
    positive = "--" + flag.removeprefix("--no-") if flag.startswith("--no-") else flag
    return len(positive) > 2 and any(known.startswith(positive) and known != positive for known in _LONG)


_LONG: Final = tuple(flag for flag in (*FACTORS, *OTHERS, *OTHER_SWITCHES, *FILES) if flag.startswith("--"))
