"""``python -m benchmarks.run``: this project and its peers in turn; medians and ratios.

``stt [FILE…]`` transcribes, ``tts`` speaks, ``compare`` runs the cases of baseline.json again and
ends with status 1 where a ratio has got worse.
"""

from __future__ import annotations

import argparse
import json
import sys
from datetime import UTC, datetime
from pathlib import Path

from benchmarks import baseline, machine
from benchmarks.alternate import FEW_BITS, OWN, Results, alternate, ratios
from benchmarks.baseline import TOLERANCE, Accepted
from benchmarks.cases import CASES, Case, Setting, clip, files, recording, speech
from benchmarks.table import show
from models.base import ModelError


def main() -> None:
    arguments = _parser().parse_args()
    setting = Setting(
        stt=arguments.stt_model,
        peers=arguments.peers,
        slow=arguments.slow,
        http=arguments.http,
        few_bits=arguments.few_bits,
        only=arguments.only,
    )
    try:
        arguments.run(arguments, setting)
    except (ModelError, RuntimeError) as error:
        sys.exit(f"benchmarks: {error}")


def _stt(arguments: argparse.Namespace, setting: Setting) -> None:
    if missing := [path for path in arguments.files if not path.is_file()]:
        sys.exit(f"benchmarks: no such file: {missing[0]}")
    print(json.dumps(machine.describe()))
    given = [files(arguments.files, setting)] if arguments.files else None
    for case in given or [clip(setting), recording(setting)]:
        results = _measure(case, arguments)
        if arguments.texts:
            texts = {name: " ".join(result.texts) for name, result in results.items()}
            print(json.dumps(texts, indent=1, ensure_ascii=False))


def _tts(arguments: argparse.Namespace, setting: Setting) -> None:
    print(json.dumps(machine.describe()))
    _measure(speech(setting), arguments)


def _compare(arguments: argparse.Namespace, setting: Setting) -> None:
    here, accepted = machine.describe(), baseline.read(baseline.FILE)
    print(json.dumps(here))
    worse = []
    for name in arguments.cases or CASES:
        results = _measure(CASES[name](setting), arguments)
        found = _ratios(results)
        if arguments.save and found:
            baseline.save({name: _accepted(here, results, found)}, baseline.FILE)
        elif name in accepted:
            worse += _judged(name, found, accepted[name], arguments.tolerance, here)
    if worse:
        sys.exit("\n".join(worse))


def _measure(case: Case, arguments: argparse.Namespace) -> Results:
    results = alternate(case.systems, case.requests, rounds=arguments.rounds)
    show(case, results)
    return results


def _ratios(results: Results) -> dict[str, float]:
    """By peer; those of 8 bits say so."""
    found = dict(ratios(results, OWN))
    if FEW_BITS in results:
        found |= {f"{peer}, ours in 8 bits": r for peer, r in ratios(results, FEW_BITS).items()}
    return {peer: round(ratio, 3) for peer, ratio in found.items()}


def _accepted(here: dict[str, str], results: Results, found: dict[str, float]) -> Accepted:
    versions = {k: v for result in results.values() for k, v in result.versions.items()}
    today = datetime.now(UTC).date().isoformat()
    return Accepted(date=today, machine=here, versions=versions, ratios=found)


def _judged(
    case: str,
    found: dict[str, float],
    accepted: Accepted,
    tolerance: float,
    here: dict[str, str],
) -> list[str]:
    if here["processor"] != accepted.machine["processor"]:
        print(f"the baseline is of another machine: {accepted.machine}")
    if absent := accepted.ratios.keys() - found:
        print(f"not compared with {', '.join(sorted(absent))}")
    worse = baseline.worse(found, accepted.ratios, tolerance=tolerance)
    return [f"worse than the baseline of {accepted.date}: {case}: {words}" for words in worse]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.run", description=__doc__)
    commands = parser.add_subparsers(required=True)
    stt = commands.add_parser("stt", help="speech to text")
    stt.add_argument("files", nargs="*", type=Path, help="else an 11-s clip, and 3 minutes")
    stt.add_argument("--texts", action="store_true", help="print what each system heard")
    stt.set_defaults(run=_stt)
    tts = commands.add_parser("tts", help="text to speech")
    tts.set_defaults(run=_tts)
    compare = commands.add_parser("compare", help="the ratios beside those of baseline.json")
    compare.add_argument("cases", nargs="*", choices=[[], *CASES], help="else all")
    compare.add_argument("--save", action="store_true", help="accept these as the baseline")
    compare.add_argument("--tolerance", type=float, default=TOLERANCE, help="of a ratio")
    compare.set_defaults(run=_compare)
    for command in (stt, tts, compare):
        _common(command)
    return parser


def _common(command: argparse.ArgumentParser) -> None:
    command.add_argument("--rounds", type=int, default=5)
    command.add_argument("--no-peers", dest="peers", action="store_false", help="only this project")
    command.add_argument("--only", nargs="+", metavar="PEER", help="beside this project")
    command.add_argument("--slow", action="store_true", help="with mlx-whisper as installed")
    command.add_argument("--http", action="store_true", help="with the service, over HTTP")
    command.add_argument("--whole", dest="few_bits", action="store_false", help="not in 8 bits too")
    command.add_argument("--stt-model", default="whisper-base", help="name or directory")


if __name__ == "__main__":
    main()
