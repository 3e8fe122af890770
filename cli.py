"""The command `foretune`: dispatches to a sub-command and imports only the modules that it needs."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from importlib import import_module
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from . import __version__
from .commands import FORETUNE, Command, Group
from .errors import UserError, end_process, exits_cleanly, print_any_character
from .signals import signals_interrupt

if TYPE_CHECKING:
    from omegaconf import DictConfig

PROGRAM = "foretune"


class CommandError(UserError, ValueError):
    """Unknown sub-command."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry of the command; exits with 1 for a finding, 2 for an error, 130 after Ctrl-C.

    SIGTERM and SIGHUP end it as Ctrl-C does, with 143 and 129. Without `arguments`, which are those of the
    process by default, it ends the process.
    """
    if arguments is not None:
        _main(list(arguments), to_the_end=False)
        return
    status: object = 0
    try:
        words = sys.argv[1:]
        if words[:1] not in ([], ["serve"], ["-sc"], ["--shell-completion"]):
            from .handover import handed_over

            if (handed := handed_over(words)) is not None:
                raise SystemExit(handed)
        _main(words, to_the_end=True)
    except SystemExit as end:
        status = end.code
    end_process(status)


def _main(words: list[str], *, to_the_end: bool) -> None:
    print_any_character()
    with exits_cleanly(), signals_interrupt(to_the_end=to_the_end):
        try:
            if words == ["version"] or words[-1:] == ["--version"]:
                print(f"{PROGRAM} {__version__}")
            elif words[:1] in (["-sc"], ["--shell-completion"]):
                from .completion import complete

                complete(words, FORETUNE)
            else:
                _dispatch(FORETUNE, [], _with_help_last(words))
        finally:
            sys.stdout.flush()  # here, where a lost reader of the output is expected


def _with_help_last(words: list[str]) -> Sequence[str]:
    """The words, with --help in place of the word help: `help tune` and `tune help` are `tune --help`."""
    if words[:1] == ["help"]:
        return [*words[1:], "--help"]
    return [*words[:-1], "--help"] if words[-1:] == ["help"] else words


def _dispatch(group: Group, names: list[str], words: Sequence[str]) -> None:
    """Runs the command of `group` that `words` start with; `names` are the words before them."""
    if not words or words[0] in ("--help", "-h", "--help-all"):
        lines = {name: f"  {name:12} {found.summary}" for name, found in group.commands.items()}
        print(group.overview.format(**lines), end="")
        return
    name, *options = words
    found = group.commands.get(name)
    if found is None:
        raise CommandError(_unknown(name, [PROGRAM, *names], group.commands))
    if isinstance(found, Group):
        _dispatch(found, [*names, name], options)
    else:
        _run([*names, name], found, options)


def _unknown(name: str, program: Iterable[str], known: Iterable[str]) -> str:
    given = [*known]
    if name.startswith("-"):
        given = ["--help", "--version"]
    similar = get_close_matches(name, given, n=1, cutoff=0.5)
    hint = f"did you mean {similar[0]}?" if similar else f"choose one of {', '.join(known)};"
    return f"{name!r} is no command of {' '.join(program)}: {hint} --help describes them"


def _run(names: list[str], command: Command, words: Sequence[str]) -> None:
    from .configuration import Validated, only_validated
    from .hydra_command import restore_log_levels, run_command

    def job(config: DictConfig) -> Any:
        if command.ahead:
            import_module(f".{command.ahead}", __package__).start(config)
        # Imported here, so that neither --help nor a wrong option waits for TVM or torch.
        with _without_collections():
            module: Any = import_module(f".{command.module}", __package__)
        restore_log_levels()
        return getattr(module, command.function)(config)

    def check(config: DictConfig) -> None:
        # Each job begins with the validation of its settings, which ends it here.
        try:
            with only_validated():
                job(config)
        except Validated as found:
            module = sys.modules[f"{__package__}.{command.module}"]
            getattr(module, "check", lambda settings: None)(found.settings)

    run_command("_".join(names), job, _with_option_names(command, words), check)


@contextmanager
def _without_collections() -> Iterator[None]:
    """Disables garbage collection inside the block and freezes the objects that it created.

    Imports create a million objects and no garbage. Collecting them would take a sixth of the time.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def _with_option_names(command: Command, words: Sequence[str]) -> list[str]:
    """The words, with positional values replaced by an override."""
    given = list(takewhile(lambda word: "=" not in word and word[:1] not in ("-", "~"), words))
    if command.positional is None or not given:
        return list(words)
    if not command.several:
        given = given[:1]
    from .command_words import quoted

    values = ",".join(map(quoted, given))  # paths may contain special characters of Hydra
    override = f"{command.positional}=[{values}]" if command.several else f"{command.positional}={values}"
    return [override, *words[len(given) :]]
