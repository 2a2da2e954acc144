"""The main job once, in plain lines: Pods are wired, engines' events become a log, the log answers and explains.

Everything runs on loopback in a directory that is removed afterwards (--keep leaves it). Every answer is checked
against what the engines really hold and what the Kubernetes API really shows; the first that is wrong ends the demo
with status 1.
"""

import argparse
import asyncio
import contextlib
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from enginesim import workload
from warmlog import cli, demokernels, demokube, flags, lab, labkube, natsserver, signals
from warmlog.demoasking import Wrong
from warmlog.demoengines import Engines

FLAGS: Final = (
    flags.Flag("turns", "chat turns in each of the demo's parts", "30", flags.at_least(5)),
    labkube.FLAG,
    flags.Flag("keep", "keep the demo's directory with all logs", "false", flags.boolean),
)


async def until_told(values: flags.Values, directory: Path) -> int:
    """The story to its end, or up to a signal: then everything is stopped in order all the same."""
    code = await signals.unless(signals.told(), tell(values, directory))
    return cli.INTERRUPTED if code is None else code


async def tell(values: flags.Values, directory: Path) -> int:
    started = time.monotonic()
    shape = workload.Shape(sessions=10_000, replicas=len(lab.ENGINES))
    async with contextlib.AsyncExitStack() as closing:
        laboratory = await closing.enter_async_context(lab.Lab(directory))
        story = Engines(laboratory, workload.turns(seed=7, shape=shape))
        cluster = None
        if values["kubernetes"] != "none":
            cluster = demokube.Cluster(story, labkube.chosen(values["kubernetes"]))
            closing.push_async_callback(cluster.kube.close)
        await play(story, cluster, values["turns"])
        story.step("Stop everything")
    total, seconds = sum(story.seen.values()), time.monotonic() - started
    print(f"\nDone in {seconds:.0f} s: {total} answers checked against the engines' memory, none wrong.")
    print("`warmlog dev` keeps the same thing running; `warmlog --help` lists the rest.")
    return 0


async def play(story: Engines, cluster: demokube.Cluster | None, count: int) -> None:
    if cluster is None:
        await story.start()
    else:
        await cluster.start()
        await cluster.declare()
        await cluster.engines()
        await cluster.explain()
        await demokernels.Kernels(story, cluster.kube).play()
    served = await story.warm(count * 2)
    turn, answer, at = await story.kill_engine(served)
    await story.kill_subscribers(count)
    await story.kill_nats(count)
    before = await cluster.outage(count // 2) if cluster else None
    await story.look_back(turn, answer, at)
    await story.show_events()
    if cluster and before:
        await cluster.look_back(before)


def run(values: flags.Values, arguments: argparse.Namespace) -> int:
    directory = Path(tempfile.mkdtemp(prefix="warmlog-demo-"))
    keep = values["keep"]
    try:
        return asyncio.run(until_told(values, directory))
    except natsserver.NatsServerError as error:
        raise cli.Failure(str(error), cli.REFUSED) from error
    except (Wrong, lab.LabError) as error:
        keep = True
        raise cli.Failure(f"{error}\nlogs are kept in {directory / 'logs'}") from error
    finally:
        if keep:
            print(f"kept: {directory}", file=sys.stderr)
        else:
            with contextlib.suppress(OSError):
                shutil.rmtree(directory)
