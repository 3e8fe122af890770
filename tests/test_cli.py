"""The command `foretune`: help, errors, dispatch, completion."""

from __future__ import annotations

import ast
import logging
import os
import re
import subprocess
import sys
from collections.abc import Iterator

import pytest
import yaml
from foretune import __version__
from foretune.cli import main
from foretune.command_words import FLAGS, SHORT_FLAGS
from foretune.commands import FORETUNE, Command, Group
from foretune.errors import FULL_ERROR
from foretune.hydra_command import run_command
from foretune.option_help import FileComments, first_sentence
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


@pytest.mark.parametrize("words", [(), ("--help",), ("-h",), ("help",)])
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
@pytest.mark.parametrize("words", [(), ("--help",), ("help",)])
def test_a_group_has_an_overview_of_its_own(capsys, name, words):
    status, out, _ = outcome(capsys, name, *words)
    assert status == 0
    for command, found in FORETUNE.commands[name].commands.items():
        assert any(line.split(maxsplit=1) == [command, found.summary] for line in out.splitlines())


@pytest.mark.parametrize("line", ["--version", "version", "tune --version"])
def test_the_version_is_that_of_the_package(capsys, line):
    assert outcome(capsys, *line.split())[:2] == (0, f"foretune {__version__}\n")


@pytest.mark.parametrize("line", ["dataset merge", "inspect"])
def test_help_may_come_first_or_last(capsys, line):
    words = line.split()
    expected = outcome(capsys, *words, "--help")
    assert expected[0] == 0
    assert outcome(capsys, "help", *words) == outcome(capsys, *words, "help") == expected


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
def test_help_fits_on_a_page_and_shows_the_options_that_people_use(capsys, monkeypatch, name):
    monkeypatch.setenv("COLUMNS", "80")
    status, out, _ = outcome(capsys, *name.split(), "--help")
    lines = out.splitlines()
    assert status == 0 and len(lines) <= 60
    assert f"\n  foretune {name}" in out
    options = out.partition("Options and their values:\n\n")[2].partition("\n\n--help-all")[0]
    starts = [line for line in options.splitlines() if re.match(r"  \S", line)]
    assert 1 <= len(starts) <= 15
    assert all(re.match(r"  [\w./]+=", line) for line in starts)
    meanings = re.split(r"\n(?=  \S)", options)
    assert all(re.search(r"\s{2,}[A-Z].*\.$", meaning.rstrip(), re.DOTALL) for meaning in meanings), meanings
    assert max(len(line) for line in options.splitlines()) <= 80


def test_a_sentence_is_whole():
    assert first_sentence(["number of tasks, as in", "a.b; see below. More."]) == (
        "Number of tasks, as in a.b; see below."
    )
    assert first_sentence([]) == ""


@pytest.mark.parametrize("name", COMMANDS)
def test_help_all_shows_the_command_its_examples_and_every_option_with_its_meaning(capsys, name):
    status, out, _ = outcome(capsys, *name.split(), "--help-all")
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
    status, out, _ = outcome(capsys, name, choice, "--help-all")
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
    short = outcome(capsys, "tune", "search=high_quality", "seed=3", "--help")[1]
    assert "\n  seed=3 " in short and "\n  search=high_quality" in short
    out = outcome(capsys, "tune", "search=high_quality", "seed=3", "--help-all")[1]
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
        ("tune serch.top_k=3", "unknown option serch.top_k: did you mean search.top_k?"),
        ("tune top_k=3", "unknown option top_k: did you mean search.top_k?"),
        ("tune strategy=draft", "unknown option strategy: did you mean search/strategy?"),
        ("tune dtype=int8", "unknown option dtype: did you mean lowering.dtype?"),
        ("tune search=high_qualty", "did you mean search=high_quality?"),
        ("train max_epoch=3", "unknown option max_epoch: did you mean trainer.max_epochs?"),
        ("compare trainer.max_epochs=3", "did you mean train.trainer.max_epochs?"),
        ("finetune learning_rate=3", "did you mean optimiser.learning_rate?"),
        ("generate minutes=3", "unknown option minutes: did you mean budget_s?"),
        ("tune --hlep", "--hlep is no flag: did you mean --help?"),
        ("train --multirn seed=1,2", "--multirn is no flag: did you mean --multirun?"),
        ("tune -network resnet18", "options are written without dashes, as in network=resnet18"),
        ("tune --netwrk resnet18", "options are written without dashes, as in network=resnet18"),
        ("--hlep", "did you mean --help?"),
        ("tune search.topk=3", "unknown option search.topk: did you mean search.top_k?"),
        ("tune search=fast", "search=fast is unknown: choose one of default, fasor"),
        ("train search=default", "unknown option search"),
        ("tune resnet18", "resnet18: missing EQUAL at '<EOF>'; options are written NAME=VALUE"),
        ("tune seed=[a(b", "seed=[a(b: "),
        ("tune seed=a(b", "seed=a(b: must be a whole number"),
        ("tune --network=resnet18", "options are written without dashes, as in network=resnet18"),
        ("dataset merge a --skip-damaged", "are written without dashes, as in skip_damaged=VALUE"),
        ("dataset merge a", "into is missing: give it, as in into=VALUE"),
        ("dataset inspect", "dataset is missing: give it, as in dataset=VALUE"),
        ("dataset inspect +folder=a", "unknown option folder"),
        ("dataset merge a into=b +skip_damage=true", "did you mean skip_damaged?"),
        ("dataset verify a replay=all", "replay=all: must be a whole number"),
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
    flags = {*(f"--{flag}" for flag in FLAGS), *(f"-{flag}" for flag in SHORT_FLAGS)}
    assert flags == {option for option in long if option.startswith("-")}


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


@pytest.mark.parametrize(
    "value",
    ["/tmp/my models/ä.onnx", "it's (1) & 2#;$HOME.onnx", "a\\'b", "ends\\", "=x=", "~/x", "[ä b,resnet18]"],
)
def test_values_need_no_quotes_of_hydra(capsys, value):
    out = outcome(capsys, "dataset", "hardware", f"name={value}", "--cfg", "job")[1]
    read = yaml.safe_load(out)["name"]
    assert read == (["ä b", "resnet18"] if value.startswith("[") else value)


def test_a_comma_in_the_name_of_a_file_is_no_list(capsys, tmp_path):
    (tmp_path / "a,b.onnx").touch()
    out = outcome(capsys, "dataset", "hardware", "name=a,b.onnx", "--cfg", "job")[1]
    assert yaml.safe_load(out)["name"] == "a,b.onnx"


def test_options_of_another_command_need_no_plus(capsys):
    words = ["compare", "dataset=d", "train.trainer.max_epochs=3", "--cfg", "job", "--package", "train"]
    assert "max_epochs: 3" in outcome(capsys, *words)[1]


TUNES = """
import sys
from foretune.cli import main
try:
    main(sys.argv[1:])
finally:
    import foretune.inference.planners.assembly
    assert 'foretune.inference.tune' in sys.modules
    assert 'networkx' not in sys.modules  # which only the trees of ETO need
    assert 'matplotlib' not in sys.modules  # which only the pages of results need
"""


def test_a_command_that_logs_nothing_leaves_no_log_and_imports_what_it_needs(tmp_path):
    words = [sys.executable, "-c", TUNES, "tune", "network=resnt18"]
    done = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 2 and "resnt18" in done.stderr and "Traceback" not in done.stderr
    assert not list(tmp_path.rglob("*.log"))


@pytest.mark.slow
def test_an_error_of_a_command_that_imports_triton_is_one_line():
    done = subprocess.run([sys.executable, "-m", "foretune", "combine"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "error: checkpoint is missing: give it, as in checkpoint=VALUE\n"


@pytest.mark.parametrize("words", ["tune --help", "train --cfg job"])
def test_help_and_settings_that_nobody_reads_end_quietly(words, tmp_path):
    """Also if Hydra prints them."""
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-c", "from foretune.cli import main; main()", *words.split()]
    try:
        done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, cwd=tmp_path)
    finally:
        os.close(writer)
    assert (done.returncode, done.stderr) == (141, "")
