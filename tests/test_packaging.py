"""pyproject.toml and the tree agree: what is in the repository is in the wheel."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest

tomllib = pytest.importorskip("tomllib", reason="the standard library reads TOML from Python 3.11 on")

ROOT = Path(__file__).resolve().parents[1]
NOT_PACKAGED = {"tests", "benchmarks", "data", "build", "dist", "outputs", "multirun", "lightning_logs"}
CODE_OR_TEXT = {".py", ".pyc", ".typed", ".md"}


@pytest.fixture(scope="module")
def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def packages_in(root: Path) -> dict[str, Path]:
    """Every folder with an `__init__.py`, by its name as a package; `root` itself is `foretune`."""
    found = {"foretune": root}
    for top in sorted(root.iterdir()):
        if top.is_dir() and top.name not in NOT_PACKAGED and not top.name.startswith("."):
            for init in sorted(top.rglob("__init__.py")):
                found[".".join(["foretune", *init.parent.relative_to(root).parts])] = init.parent
    return found


def folders_without_init(root: Path) -> list[Path]:
    """Folders inside packages that hold Python files and are no package themselves."""
    folders = {
        source.parent
        for name, folder in packages_in(root).items()
        if name.count(".") == 1
        for source in folder.rglob("*.py")
    }
    return sorted(folder for folder in folders if not (folder / "__init__.py").exists())


def uncovered_data(root: Path, package_data: dict[str, list[str]]) -> list[Path]:
    """Data files inside packages that no pattern of package-data matches."""
    packages = packages_in(root)
    covered = {
        path
        for name, patterns in package_data.items()
        for pattern in patterns
        for path in packages[name].glob(pattern)
    }
    data = {
        path
        for name, folder in packages.items()
        if name.count(".") == 1
        for path in folder.rglob("*")
        if path.is_file() and path.suffix not in CODE_OR_TEXT
    }
    return sorted(data - covered)


def missing_entry_points(root: Path, scripts: dict[str, str]) -> list[str]:
    """Console commands whose file does not exist or does not define their function."""
    return [command for command, target in scripts.items() if not _defines(root, target)]


def _defines(root: Path, target: str) -> bool:
    module, _, function = target.partition(":")
    source = root.joinpath(*module.split(".")[1:]).with_suffix(".py")
    if not source.is_file():
        return False
    tree = ast.parse(source.read_text(encoding="utf-8"))
    return any(isinstance(node, ast.FunctionDef) and node.name == function for node in tree.body)


def test_listed_packages_are_those_of_the_tree(project: dict[str, Any]) -> None:
    assert sorted(project["tool"]["setuptools"]["packages"]) == sorted(packages_in(ROOT))


def test_package_folders_are_those_of_the_tree(project: dict[str, Any]) -> None:
    folders = project["tool"]["setuptools"]["package-dir"]
    top = {name: path for name, path in packages_in(ROOT).items() if name.count(".") < 2}
    assert {name: (ROOT / folder).resolve() for name, folder in folders.items()} == top


def test_every_folder_with_code_is_a_package() -> None:
    assert folders_without_init(ROOT) == []


def test_every_data_file_is_packaged(project: dict[str, Any]) -> None:
    assert uncovered_data(ROOT, project["tool"]["setuptools"]["package-data"]) == []


def test_the_data_files_of_the_root_are_packaged(project: dict[str, Any]) -> None:
    listed = project["tool"]["setuptools"]["package-data"]["foretune"]
    assert sorted(listed) == sorted(path.name for path in ROOT.iterdir() if path.suffix in (".typed", ".j2"))


def test_console_commands_exist(project: dict[str, Any]) -> None:
    assert missing_entry_points(ROOT, project["project"]["scripts"]) == []


def test_makefile_installs_a_torch_that_the_package_accepts(project: dict[str, Any]) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    settings = dict(line.split(":=", 1) for line in makefile.splitlines() if ":=" in line)
    values = {name.strip(): value.strip() for name, value in settings.items()}
    assert values["TORCH"] in project["project"]["dependencies"]
    version = values["CPU_TORCH"].removeprefix("torch==").removesuffix("+cpu")
    assert version != values["CPU_TORCH"]
    lower, upper = values["TORCH"].removeprefix("torch>=").split(",<")
    assert _numbers(lower) <= _numbers(version) < _numbers(upper)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


@pytest.fixture
def small_tree(tmp_path: Path) -> Path:
    """A made-up repository with one package, one test and one configuration."""
    for name in ("__init__.py", "models/__init__.py", "models/deep/__init__.py", "tests/__init__.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "models" / "run.py").write_text("def main(): ...\nother = 3\n")
    (tmp_path / "models" / "card.json").touch()
    return tmp_path


def test_the_checks_see_the_tree(small_tree: Path) -> None:
    assert list(packages_in(small_tree)) == ["foretune", "foretune.models", "foretune.models.deep"]


def test_the_checks_find_a_folder_without_init(small_tree: Path) -> None:
    assert folders_without_init(small_tree) == []
    (small_tree / "models" / "lost").mkdir()
    (small_tree / "models" / "lost" / "code.py").touch()
    assert folders_without_init(small_tree) == [small_tree / "models" / "lost"]


def test_the_checks_find_a_data_file_left_out(small_tree: Path) -> None:
    card = small_tree / "models" / "card.json"
    assert uncovered_data(small_tree, {"foretune.models": ["**/*.json"]}) == []
    assert uncovered_data(small_tree, {"foretune.models": ["*.yaml"]}) == [card]


def test_the_checks_find_a_broken_command(small_tree: Path) -> None:
    scripts = {
        "good": "foretune.models.run:main",
        "no-function": "foretune.models.run:other",
        "no-file": "foretune.models.walk:main",
    }
    assert missing_entry_points(small_tree, scripts) == ["no-function", "no-file"]
