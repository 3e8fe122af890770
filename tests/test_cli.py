"""The command `foretune`: help, errors, dispatch, completion."""

from __future__ import annotations

import ast
import logging
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest
from foretune import __version__
from foretune.cli import FORETUNE, Command, Group, main
from foretune.errors import FULL_ERROR
from foretune.hydra_command import FLAGS, run_command
from foretune.option_help import FileComments
from hydra._internal.utils import get_args_parser
from support.paths import ROOT


def commands(group: Group = FORETUNE, name: str = "") -> Iterator[tuple[str, Command]]:
    """Every command by its words."""
    for word, found in group.commands.items():
        if isinstance(found, Group):
            yield from commands(found, f"{name}{word} ")
        else:
            yield f"{name}{word}", found


COMMANDS = dict(commands())


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """Runs each test in an empty folder, and takes back what Hydra does to logging."""
    monkeypatch.chdir(tmp_path)
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:], root.level = handlers, level


def outcome(capsys, *words):
    """Status and output of the command."""
    status = 0
    try:
        main(words)
    except SystemExit as end:
        status = end.code
    return status, *capsys.readouterr()


def options_in(text: str) -> list[str]:
    """Lines of the options in the help of a command."""
    return (
        text.partition("Options and their values:\n\n")[2].partition("\n\nAn option is set")[0].splitlines()
    )


# --- the overview


@pytest.mark.parametrize("words", [(), ("--help",), ("-h",)])
def test_the_overview_has_every_command_in_the_order_of_the_journey(capsys, words):
    status, out, _ = outcome(capsys, *words)
    assert status == 0
    places = [out.index(f"\n  {name} ") for name in FORETUNE.commands]
    assert places == sorted(places)
    assert {name for name, _ in commands(FORETUNE)} >= {"generate", "dataset merge", "train", "tune"}
    assert (
        out.index("foretune generate dataset=") < out.index("foretune train") < out.index("foretune tune net")
    )


@pytest.mark.parametrize(
    "name", [name for name, found in FORETUNE.commands.items() if isinstance(found, Group)]
)
@pytest.mark.parametrize("words", [(), ("--help",)])
def test_a_group_has_an_overview_of_its_own(capsys, name, words):
    status, out, _ = outcome(capsys, name, *words)
    assert status == 0
    for command, found in FORETUNE.commands[name].commands.items():
        assert any(line.split(maxsplit=1) == [command, found.summary] for line in out.splitlines())


def test_the_version_is_that_of_the_package(capsys):
    assert outcome(capsys, "--version")[:2] == (0, f"foretune {__version__}\n")


@pytest.mark.parametrize(
    "words",
    [["--help"], ["dataset"], ["tune", "--help"], ["tune", "netwrk=a"], ["train", "--cfg", "job"]],
    ids=" ".join,
)
def test_what_runs_nothing_imports_neither_torch_nor_tvm(words):
    code = (
        "import sys\nfrom foretune.cli import main\ntry: main(sys.argv[1:])\nexcept SystemExit: pass\n"
        "assert not {'torch', 'tvm', 'pytorch_lightning'} & set(sys.modules), list(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_tuning_imports_networkx_for_trees_of_eto_alone():
    code = (
        "import sys\nimport foretune.inference.tune, foretune.inference.planners.assembly\n"
        "assert 'networkx' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


# --- the commands


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_its_configuration_and_its_function(name):
    command = COMMANDS[name]
    assert (ROOT / "conf" / f"{name.replace(' ', '_')}.yaml").is_file()
    source = ROOT.joinpath(*command.module.split(".")).with_suffix(".py").read_text(encoding="utf-8")
    functions = [node.name for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)]
    assert command.function in functions


def test_every_configuration_has_its_command():
    configured = {path.stem for path in (ROOT / "conf").glob("*.yaml")}
    assert configured == {name.replace(" ", "_") for name in COMMANDS}


@pytest.mark.parametrize("name", COMMANDS)
def test_help_shows_the_command_its_examples_and_every_option_with_its_meaning(capsys, name):
    status, out, _ = outcome(capsys, *name.split(), "--help")
    assert status == 0
    assert out.startswith(f"foretune {name} ")
    assert f"\n  foretune {name}" in out or f"\n  foretune {name}" in out.replace("\n    ", "\n  ")
    assert without_meaning(options_in(out)) == []


PRESETS = [
    (name, f"{group}={preset.stem}")
    for name, groups in {
        "tune": ("executor", "search", "search/strategy"),
        "train": ("model",),
        "compare": ("experiment",),
    }.items()
    for group in groups
    for preset in sorted((ROOT / "conf" / group).glob("*.yaml"))
]


@pytest.mark.parametrize(("name", "choice"), PRESETS)
def test_help_explains_every_preset_and_its_options(capsys, name, choice):
    status, out, _ = outcome(capsys, name, choice, "--help")
    assert status == 0
    group, _, preset = choice.partition("=")
    presets = out.partition(f"\n{group}\n")[2].splitlines()
    chosen = next(line for line in presets if line.startswith("  * ")).split(maxsplit=2)
    assert chosen[1] == preset and len(chosen[2]) > 10
    assert without_meaning(options_in(out)) == []


def without_meaning(lines: list[str]) -> list[str]:
    """Options without a comment above or beside them, but for a comparison's settings of its trainings."""
    missing, top, before = [], "", ""
    for line in lines:
        if not line.startswith((" ", "#")):
            top = line.partition(":")[0]
        leaf = not line.lstrip().startswith("#") and not line.partition(" #")[0].endswith(":")
        commented = " # " in line or before.lstrip().startswith("# ")
        if leaf and not commented and top not in ("contestants", "train"):
            missing.append(line)
        before = line
    assert top
    return missing


def test_options_without_a_meaning_are_found():
    assert without_meaning(["# text", "a: 1", "b: 2 # text", "c:", "  d: 3"]) == ["  d: 3"]


def test_help_shows_the_values_of_this_command_line(capsys):
    out = outcome(capsys, "tune", "search=high_quality", "seed=3", "--help")[1]
    assert "\nseed: 3 # " in out
    assert "\n  * high_quality " in out and "\n    default " in out
    # The comments are those of search/default.yaml and search/strategy/draft.yaml.
    meaning = FileComments.of((ROOT / "conf" / "search" / "default.yaml").read_text()).above["rounds"]
    assert meaning and f"{meaning[-1]}\n  rounds: 12\n" in out
    assert "\n    population: 2048 # " in out
    assert "\n  seed: ${seed} # " in out
    assert "\nmodel:" not in out and "\nmodel\n" not in out


def test_comments_are_read_as_they_stand():
    comments = FileComments.of(
        "# @package _global_\n# head\n#   example\n\n# above\n# it\na: 'x # y' # beside\nb: # of b\n  - 1\n"
        "c:\n  # deep\n  d: {e: 1} # flow\nf: g#h\n"
    )
    assert comments.head == ["head", "  example"]
    assert comments.above["a"] == ["above", "it"] and comments.beside["a"] == "beside"
    assert comments.beside["b"] == "of b" and comments.above["c"] == []
    assert comments.above["c.d"] == ["deep"] and comments.beside["c.d"] == "flow"
    assert comments.beside["f"] == ""
    assert FileComments.of("# of a\na: 1\n").head == []


def test_hydra_prints_the_composed_settings(capsys):
    status, out, _ = outcome(capsys, "evaluate", "--cfg", "job", "checkpoint=c", "dataset=d")
    assert status == 0
    assert out.startswith("checkpoint: c\ndataset: d\npart: unseen\n")


# --- errors


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("tun", "'tun' is no command of foretune: did you mean tune?"),
        ("xyz", "'xyz' is no command of foretune: choose one of generate, propose, dataset, train"),
        ("network=resnet18", "is no command of foretune"),
        ("dataset insp data/mine", "'insp' is no command of foretune dataset: did you mean inspect?"),
        ("tune netwrk=a", "unknown option netwrk: did you mean network?"),
        ("tune serch.top_k=3", "unknown option serch: did you mean search?"),
        ("tune search.topk=3", "unknown option search.topk: did you mean search.top_k?"),
        ("tune search=fast", "search=fast is unknown: choose one of default, fasor"),
        ("train search=default", "unknown option search"),
        ("tune resnet18", "resnet18: missing EQUAL at '<EOF>'; options are written NAME=VALUE"),
        ("tune seed=a(b", "seed=a(b: "),
        ("tune --network resnet18", "--network: options are written without dashes, as in network=VALUE"),
        ("dataset merge a --skip-damaged", "are written without dashes, as in skip_damaged=VALUE"),
        ("dataset merge a", "into is missing: give it, as in into=VALUE"),
        ("dataset inspect", "dataset is missing: give it, as in dataset=VALUE"),
        ("dataset inspect +folder=a", "unknown option folder"),
        ("dataset verify a replay=all", "replay: Value 'all' of type 'str' could not be converted"),
        ("dataset hardware ~names", "'names' does not exist"),
        ("dataset hardware gtx9999", "'gtx9999'"),
    ],
)  # fmt: skip
def test_a_wrong_command_line_is_one_clear_error(capsys, line, message):
    status, out, err = outcome(capsys, *line.split())
    assert (status, out) == (2, "")
    assert err.startswith("error: ") and err.count("\n") == 1
    assert message in err


def test_tracebacks_are_shown_where_they_are_asked_for(capsys, monkeypatch):
    monkeypatch.setenv(FULL_ERROR, "1")
    with pytest.raises(Exception, match="netwrk"):
        main(["tune", "netwrk=a"])


def test_the_flags_of_hydra_are_known():
    long = {option for action in get_args_parser()._actions for option in action.option_strings}
    assert {f"--{flag}" for flag in FLAGS} == {option for option in long if option.startswith("--")}


# --- dispatch


def test_python_runs_the_command_from_any_folder_and_leaves_nothing_there(tmp_path):
    words = [sys.executable, "-m", "foretune", "dataset", "hardware", "v100"]
    done = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert '"kind": "cuda"' in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_leading_words_are_values_whatever_they_hold(capsys):
    assert "a b,'{c}' has no dataset" in outcome(capsys, "dataset", "inspect", "a b,'{c}'")[2]
    assert "'a b'" in outcome(capsys, "checkpoints", "show", "a b")[2]


def test_a_job_sees_its_process_as_it_was_started(monkeypatch):
    monkeypatch.delenv(FULL_ERROR, raising=False)
    started_by = sys.argv
    seen = []

    def job(config):
        seen.append((config.name, sys.argv, os.environ.get(FULL_ERROR)))

    run_command("dataset_hardware", job, ["name=a"])
    run_command("dataset_hardware", job, ["--multirun", "name=b,c"])
    assert seen == [(name, started_by, None) for name in "abc"]
    assert sys.argv is started_by


def test_the_status_of_a_job_is_that_of_the_command():
    with pytest.raises(SystemExit) as end:
        run_command("dataset_hardware", lambda config: 130, [])
    assert end.value.code == 130


# --- completion


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        ("foretune ", list(FORETUNE.commands)),
        ("foretune tu", list(FORETUNE.commands)),  # the shell keeps those that fit
        ("foretune dataset ", list(FORETUNE.commands["dataset"].commands)),
        ("foretune tune netw", ["network="]),
        ("foretune tune search=high_", ["search=high_efficiency", "search=high_quality"]),
        ("foretune tune search=high_quality search.strategy.p", ["search.strategy.population="]),
        ("foretune dataset merge ski", ["skip_damaged="]),
        ("foretune nonsense ", []),
    ],
)
@pytest.mark.parametrize("shell", ["bash", "fish"])
def test_words_are_completed(capsys, monkeypatch, shell, line, answer):
    monkeypatch.setenv("COMP_LINE", line)
    status, out, _ = outcome(capsys, "-sc", f"query={shell}")
    assert status == 0
    assert out.split() == answer


@pytest.mark.parametrize("words", [["-sc"], ["tune", "-sc"]])
def test_the_completion_of_bash_is_installed_for_the_program(capsys, words):
    status, out, _ = outcome(capsys, *words, "install=bash")
    assert status == 0
    assert out.rstrip().endswith("-F hydra_bash_completion foretune")
