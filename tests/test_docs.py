"""Documents against the code: links, paths, commands, options, names and columns."""

from __future__ import annotations

import ast
import contextlib
import inspect
import re
import shlex
import sys
from collections.abc import Iterator, Sequence
from dataclasses import fields
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import foretune.inference
import numpy as np
import pytest
import torch
from foretune import cli
from foretune.command_words import with_quotes
from foretune.compiler import targets
from foretune.compiler.operators import registry
from foretune.configuration import from_hydra
from foretune.dataset.hardware import Hardware
from foretune.dataset.records.schema import READABLE_VERSIONS, RECORD_SCHEMA, TASK_SCHEMA, FailureKind
from foretune.inference import OneShotConfig, PretrainedCostModel, this_machine
from foretune.inference.bolt.advice.content import Advice
from foretune.inference.bundle.format import SCHEMA_VERSION, BundleTask, Manifest
from foretune.inference.deploy.description import Description
from foretune.inference.deploy.rivals.base import Engine, NetworkSource
from foretune.inference.run.result import Contestant, TaskResult, TuneResult
from foretune.models.architectures import registry as models
from foretune.models.architectures.cost_model import Predictor
from foretune.models.checkpoints.card import CARD_SHA256, READABLE_SCHEMAS, Card
from foretune.models.scaling.normaliser import Normaliser
from foretune.models.scaling.target import TargetConfig
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from support import composition, synthetic
from support.paths import ROOT
from tvm.s_tir import meta_schedule as ms
from tvm.target import Target

DOCUMENTS = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
LAYERS = ("compiler", "dataset", "models", "training", "inference")
FOLDERS = (*LAYERS, "conf", "checkpoints", "tests", "benchmarks", "examples", "docs")
EXTENDING = ROOT / "docs" / "extending.md"
GLOSSARY = ROOT / "docs" / "glossary.md"
FORMATS = ROOT / "docs" / "formats.md"
CHANGES = ROOT / "CHANGELOG.md"

per_document = pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))


FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", flags=re.DOTALL | re.MULTILINE)


def prose(text: str) -> str:
    """A document without its fenced code."""
    return FENCE.sub("", text)


def fenced(text: str, language: str = "") -> list[str]:
    """The fenced blocks of a language."""
    return [block for found, block in FENCE.findall(text) if found == language]


def inline_code(text: str) -> list[str]:
    return re.findall(r"`([^`\n]+)`", prose(text))


def rows(text: str, heading: str) -> list[list[str]]:
    """Cells of all tables below a heading, up to the next one of any level, without their header rows."""
    section = re.split(r"^#+ ", text.partition(f"\n{heading}\n")[2], maxsplit=1, flags=re.MULTILINE)[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    table = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]
    rulers = [number for number, cells in enumerate(table) if set(cells[0]) <= set("-:")]
    headers = {number - 1 for number in rulers}
    return [cells for number, cells in enumerate(table) if number not in headers and number not in rulers]


def current(path: Path) -> str:
    """A document; the changelog without the first cell of each row, which names what was there before."""
    text = path.read_text()
    return re.sub(r"^\|[^|]*\|", "|", text, flags=re.MULTILINE) if path == CHANGES else text


def named(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


# --- links and paths


def anchors(path: Path) -> set[str]:
    """Anchors that GitHub makes of the headings of a document."""
    headings = re.findall(r"^#+ (.*)$", prose(path.read_text()), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@per_document
def test_relative_links_resolve(path):
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(path.read_text())):
        if target.startswith(("http://", "https://")):
            continue
        file, _, anchor = target.partition("#")
        linked = (path.parent / file).resolve() if file else path
        assert linked.exists(), target
        assert not anchor or anchor in anchors(linked), target


def paths_in(text: str) -> Iterator[str]:
    """Code in a text that has the form of a path of this repository, placeholders such as <name> apart."""
    for code in inline_code(text):
        if re.fullmatch(r"[\w.\-/*]+", code) and code.partition("/")[0] in FOLDERS and "/" in code:
            yield code


def missing_paths(text: str) -> list[str]:
    return [name for name in paths_in(text) if not any(ROOT.glob(name.rstrip("/")))]


@per_document
def test_paths_exist(path):
    assert missing_paths(current(path)) == []


def test_wrong_paths_are_seen():
    text = "`compiler/task.py`, `dataset/measure/`, `compiler/tusk.py`, `inference/<name>.py`, `a/b`"
    assert list(paths_in(text)) == ["compiler/task.py", "dataset/measure/", "compiler/tusk.py"]
    assert missing_paths(text) == ["compiler/tusk.py"]


def test_the_architecture_has_each_room_once():
    text = (ROOT / "docs" / "architecture.md").read_text()
    rooms = [folder for cells in rows(text, "## Rooms") for folder in named(cells[0])]
    folders = [init.parent for layer in LAYERS for init in (ROOT / layer).glob("*/__init__.py")]
    assert sorted(rooms) == sorted(f"{folder.relative_to(ROOT)}/" for folder in folders)


PAGES = {
    "README.md": 900,
    "docs/architecture.md": 2500,
    "docs/glossary.md": 1800,
    "docs/extending.md": 1800,
}
"""Most words of a page."""


@pytest.mark.parametrize("page", PAGES)
def test_pages_are_short(page):
    assert len((ROOT / page).read_text().split()) <= PAGES[page]


# --- commands and options


def commands_in(text: str) -> Iterator[list[str]]:
    """The words after `foretune` and after settings of the environment in code, without comments."""
    lines = [line for block in fenced(text) for line in re.sub(r"\\\n", "", block).splitlines()]
    for line in [*lines, *(code for code in inline_code(text) if code.startswith("foretune "))]:
        words = shlex.split(re.sub(r"^([A-Z_]+=\w+ )+", "", line), comments=True)
        if words[:1] == ["foretune"]:
            yield words[1:]


COMPOSED: set[tuple[str, ...]] = set()
"""Commands that compose; several documents show the same ones."""


def composed(words: Sequence[str]) -> DictConfig:
    """The configuration of a command, empty for a group; raises HydraException for an unknown option."""
    found: cli.Command | cli.Group = cli.FORETUNE
    names = []
    words = [word for word in words if not word.startswith("--")]
    while isinstance(found, cli.Group):
        if not words:
            return DictConfig({})
        names.append(words.pop(0))
        found = found.commands[names[-1]]
    overrides = cli._with_option_names(found, words)
    # A sweep's values are tried by the first of them.
    overrides = [re.sub(r"^([\w.]+=[\w.]+),.*", r"\1", override) for override in overrides]
    name = "_".join(names)
    return composition.composed(name, *with_quotes(overrides, name))


@per_document
def test_commands_compose(path):
    for words in commands_in(current(path)):
        if (known := tuple(words)) not in COMPOSED:
            composed(words)
            COMPOSED.add(known)


def test_a_wrong_option_is_seen():
    text = "```\nforetune tune network=resnet18 \\\n    search.top_kk=3   # more\n```\n"
    (words,) = commands_in(text)
    assert words == ["tune", "network=resnet18", "search.top_kk=3"]
    with pytest.raises(HydraException):
        composed(words)
    (older,) = commands_in("```\nFORETUNE_CPU=haswell foretune tune seed=1\n```\n")
    assert older == ["tune", "seed=1"]
    with pytest.raises(KeyError):
        composed(["no_such_command", "--help"])


CONFIGURATIONS = (
    *("tune", "inspect", "advise", "generate", "propose"),
    *("train", "combine", "evaluate", "compare", "finetune"),
)


GROUPS = ("search/strategy", "search/planner", "executor")
BUNDLES = ("export", "import")


@pytest.fixture(scope="module")
def defaults():
    presets = [
        ["tune", f"{group}={path.stem}"]
        for group in GROUPS
        for path in (ROOT / "conf" / group).glob("*.yaml")
    ]
    bundles = [["bundle", name] for name in BUNDLES]
    return [composed(words) for words in [*([name] for name in CONFIGURATIONS), *presets, *bundles]]


OPTION_GROUPS = {"search", "task_sampling", "program_sampling", "noise", "measure", "lowering"}
OPTION_GROUPS |= {"split", "loss", "trainer", "choice", "optimiser"}


def has_option(config: DictConfig, name: str) -> bool:
    """Whether a configuration has an option of its own of that name; a group of options is none."""
    parent, _, key = name.rpartition(".")
    group = OmegaConf.select(config, parent) if parent else config
    if not isinstance(group, DictConfig) or key not in group:
        return False
    return OmegaConf.is_missing(group, key) or not isinstance(group[key], DictConfig)


@cache
def accepted(choice: str) -> bool:
    """Whether a command takes a choice such as `search=high_quality`."""
    for name in CONFIGURATIONS:
        with contextlib.suppress(HydraException):
            composed([name, choice])
            return True
    return False


def wrong_options(text: str, defaults: Sequence[DictConfig]) -> list[str]:
    """Options and choices in the code of a text that no command has."""
    wrong = []
    spans = [span for span in inline_code(text) if not re.match(r"foretune |\w+\(", span)]
    for code in (word for span in spans for word in span.split()):
        if re.fullmatch(r"[a-z_]+([./][a-z_]+)*=[\w./\-\[\],]+", code):
            name = code.partition("=")[0]
            found = any(has_option(config, name) for config in defaults) or accepted(code)
        elif re.fullmatch(r"[a-z_]+(\.[a-z_]+)+(?<!\.py)", code) and code.partition(".")[0] in OPTION_GROUPS:
            found = any(has_option(config, code) for config in defaults)
        else:
            continue
        wrong += [] if found else [code]
    return wrong


@per_document
def test_options_are_there(path, defaults):
    assert wrong_options(current(path), defaults) == []


def test_wrong_options_are_seen(defaults):
    text = "`search.top_k`, `search.top_kk` "
    text += "`search.rounds=1 search.round=1`, `search=default`, `search=x`"
    assert wrong_options(text, defaults) == ["search.top_kk", "search.round=1", "search=x"]


# --- names


@per_document
def test_imports_of_snippets_resolve(path):
    for snippet in fenced(path.read_text(), "python"):
        for node in ast.walk(ast.parse(snippet)):
            if isinstance(node, ast.ImportFrom) and str(node.module).startswith("foretune"):
                for alias in node.names:
                    assert hasattr(import_module(str(node.module)), alias.name), alias.name


@pytest.fixture
def extensions(monkeypatch) -> dict[str, ModuleType]:
    """Modules of the extending page by heading, executed; what they register is forgotten after the test."""
    monkeypatch.setattr(registry, "OPERATOR_SETTINGS", dict(registry.OPERATOR_SETTINGS))
    monkeypatch.setattr(models, "MODELS", dict(models.MODELS))
    sections = re.split(r"^## ", EXTENDING.read_text(), flags=re.MULTILINE)[1:]
    made = {}
    for section in sections:
        for snippet in fenced(section, "python"):
            module = ModuleType("snippet")
            monkeypatch.setitem(sys.modules, "snippet", module)  # where dataclasses look
            exec(compile(snippet, "extending.md", "exec", dont_inherit=True), vars(module))
            made[section.partition("\n")[0]] = module
    return made


def own_values(module: ModuleType) -> list[Any]:
    return [value for value in vars(module).values() if getattr(value, "__module__", "") == "snippet"]


def test_classes_of_the_extending_page_are_whole(extensions):
    """Each section that promises code has some, and leaves nothing of its interface abstract."""
    asked = "strategy", "start source", "design space", "task planner", "model", "rival", "operator"
    for kind in asked:
        values = own_values(extensions[f"A{'n' if kind == 'operator' else ''} {kind}"])
        assert values, kind
        assert not any(inspect.isabstract(cls) for cls in values)


def test_the_model_of_the_extending_page_serves(extensions):
    assert "A model" in extensions
    (yaml,) = fenced(EXTENDING.read_text(), "yaml")
    config = from_hydra(OmegaConf.create(yaml), models.ModelConfig)
    table = synthetic.dataset(tasks=2, per_task=3).features
    normaliser = Normaliser.fit(table, np.arange(6))
    model = models.build_model(config, normaliser.dims)
    before = Predictor(normaliser, model, TargetConfig()).table_columns(table, np.arange(6))
    model.rescale(2.0, 1.0)
    after = Predictor(normaliser, model, TargetConfig()).table_columns(table, np.arange(6))
    np.testing.assert_allclose(after, 1 + 2 * before, rtol=1e-4, atol=1e-5)
    assert np.ptp(before) > 0


def test_the_rival_of_the_extending_page_runs(extensions):
    (rival,) = (cls for cls in own_values(extensions["A rival"]) if issubclass(cls, Engine))
    module = torch.nn.Linear(4, 3).eval()
    data = np.arange(8, dtype=np.float32).reshape(2, 4)
    threads = torch.get_num_threads()
    try:
        engine = rival(threads)
        engine.prepare()
        (found,) = engine.arrays(engine.load(NetworkSource((data,), module))((data,))())
    finally:
        torch.set_num_threads(threads)
    expected = data @ module.weight.detach().numpy().T + module.bias.detach().numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_the_instruction_set_of_the_extending_page_is_chosen(extensions, monkeypatch):
    arm = Target({"kind": "llvm", "mtriple": "aarch64-linux-gnu", "mcpu": "neoverse-n1", "num-cores": 4})
    assert targets.TargetTraits(arm).vectors is None
    added = extensions["An instruction set"]
    monkeypatch.setattr(targets, "VECTOR_SETS", (*targets.VECTOR_SETS, added.NEON))
    monkeypatch.setattr(targets, "INSTRUCTIONS", (*targets.INSTRUCTIONS, added.NEON_FMA))
    monkeypatch.setattr(targets, "CONVERSIONS", (added.NEON_FLOAT16,))
    traits = targets.TargetTraits(arm)
    assert (traits.vector_bits, traits.instructions) == (128, (added.NEON_FMA,))
    assert traits.converts("float16")


def test_the_data_type_of_the_extending_page_is_whole(extensions):
    added = extensions["A data type"].FLOAT8
    assert added.numpy.itemsize == added.bytes == getattr(torch, added.name).itemsize
    assert not added.is_integer and added.factors == (added.name, added.name)
    assert 0 <= added.tolerances.rounding < added.tolerances.network


def resolves(name: str) -> bool:
    """Whether a dotted name is a module or a name of one."""
    with contextlib.suppress(ModuleNotFoundError):
        import_module(name)
        return True
    module, _, attribute = name.rpartition(".")
    return hasattr(import_module(module), attribute)


def test_names_of_the_changelog_are_there():
    names = [code for code in inline_code(current(CHANGES)) if re.fullmatch(r"foretune(\.\w+)+", code)]
    assert len(names) > 15
    assert [name for name in names if not resolves(name)] == []


def test_settings_of_the_changelog_are_accepted():
    written = [code for code in inline_code(current(CHANGES)) if code.startswith("OneShotConfig(")]
    assert len(written) == 3
    for code in written:
        assert isinstance(eval(code, {"OneShotConfig": OneShotConfig}), OneShotConfig)


def test_public_names_are_documented():
    text = (ROOT / "docs" / "usage" / "plug-in.md").read_text()
    for name in foretune.inference.__all__:
        assert re.search(rf"\b{name}\b", text), name
        assert getattr(foretune.inference, name) is not None


def glossary_rows() -> list[list[str]]:
    text = GLOSSARY.read_text()
    headings = re.findall(r"^## .*$", text, flags=re.MULTILINE)
    return [cells for heading in headings for cells in rows(text, heading)]


def test_each_term_of_the_glossary_stands_once():
    terms = [term for cells in glossary_rows() for term in cells[0].split(", ")]
    assert len(terms) > 50
    assert sorted(terms) == sorted(set(terms))


@pytest.mark.parametrize("cells", glossary_rows(), ids=lambda cells: cells[0])
def test_the_code_of_each_term_is_there(cells):
    code = cells[3]
    if code == "not built":
        return
    file, name = named(code)
    assert re.search(rf"\b{re.escape(name)}\b", (ROOT / file).read_text()), code


# --- formats


def first_column(heading: str) -> list[str]:
    return [name for cells in rows(FORMATS.read_text(), heading) for name in named(cells[0])]


def test_versions_that_are_read_are_stated():
    text = FORMATS.read_text()
    assert f"Versions {READABLE_VERSIONS[0]} to {READABLE_VERSIONS[-1]} are read" in text
    assert f"Cards of schema {READABLE_SCHEMAS[0]} to {READABLE_SCHEMAS[-1]} are read" in text


def test_columns_of_tasks_are_described():
    assert first_column("### Task") == TASK_SCHEMA.names


def test_columns_of_records_are_described():
    assert first_column("### Record") == RECORD_SCHEMA.names
    (failure,) = (cells[2] for cells in rows(FORMATS.read_text(), "### Record") if cells[0] == "`failure`")
    assert named(failure) == [kind.value for kind in FailureKind]


def test_fields_of_devices_are_described():
    assert first_column("### Device") == [field.name for field in fields(Hardware)]


def test_fields_of_cards_are_described():
    described = first_column("## Checkpoint")
    assert sorted(described) == sorted({field.name for field in fields(Card)} | {"dims", CARD_SHA256})


def test_fields_of_bundles_are_described():
    described = first_column("## Bundle")
    assert described == [field.name for part in (Manifest, BundleTask) for field in fields(part)]
    assert f"Bundles of schema {SCHEMA_VERSION} are read" in FORMATS.read_text()


def test_fields_of_reports_are_described():
    described = first_column("## report.json")
    expected = {field.name for kind in (TuneResult, TaskResult, Contestant) for field in fields(kind)}
    assert set(described) == expected | {"schema_version"}


def test_fields_of_advice_are_described():
    assert first_column("## Advice") == [field.name for field in fields(Advice)]


def test_fields_of_descriptions_are_described():
    described = first_column("## Exported network")
    assert described == ["version", *(field.name for field in fields(Description))]


# --- length


LONGEST = {"README.md": 650, "docs/usage/tune.md": 800}
"""Words of a page without its generated tables."""

LONGEST_GUIDE = 1250

GUIDES = [ROOT / "README.md", *(ROOT / "docs" / "usage").rglob("*.md")]


def words_of(text: str) -> int:
    return len(re.sub(r"<!-- table: .*?<!-- /table -->", "", text, flags=re.DOTALL).split())


@pytest.mark.parametrize("path", GUIDES, ids=lambda path: str(path.relative_to(ROOT)))
def test_guides_are_short(path):
    assert words_of(path.read_text()) <= LONGEST.get(str(path.relative_to(ROOT)), LONGEST_GUIDE)


def test_generated_tables_do_not_count():
    assert words_of("one two\n<!-- table: a -->\n| x | y |\n<!-- /table -->\nthree") == 3


@pytest.mark.parametrize("path", GUIDES[1:], ids=lambda path: str(path.relative_to(ROOT)))
def test_each_guide_is_linked_from_another_page(path):
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    linked = {
        (page.parent / target.partition("#")[0]).resolve()
        for page in pages
        if page != path
        for target in re.findall(r"\]\(([^)\s]+)\)", prose(page.read_text()))
    }
    assert path.resolve() in linked


def test_the_first_snippet_tunes_for_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs the README's script as it stands, up to the search; TVM draws programs for its task and target."""
    settings: dict[str, Any] = {}

    def tune_tir(mod: Any, target: Target, work_dir: str, **given: Any) -> None:
        context = ms.TuneContext(mod=mod, target=target, space_generator="post-order-apply", rand_state=1)
        settings.update(given, programs=len(context.generate_design_space()), target=target)

    monkeypatch.setattr(ms, "tune_tir", tune_tir)
    (script,) = fenced((ROOT / "README.md").read_text(encoding="utf-8"), "python")
    exec(compile(script, "README.md", "exec"), {"__name__": "__main__"})
    assert settings["programs"] > 0 and str(settings["target"]) == str(this_machine())
    assert isinstance(settings["cost_model"], PretrainedCostModel)


def test_the_plug_in_guide_defines_what_its_snippets_use() -> None:
    text = (ROOT / "docs" / "usage" / "plug-in.md").read_text(encoding="utf-8")
    first, *_ = fenced(text, "python")
    names: dict[str, Any] = {}
    exec(compile(first, "plug-in.md", "exec"), names)
    assert str(names["target"]) == str(this_machine()) and names["mod"]["main"] and names["work_dir"]
