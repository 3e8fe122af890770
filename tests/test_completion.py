"""Tab completion of commands, options and values."""

from __future__ import annotations

import pytest
from foretune.cli import main
from foretune.commands import FORETUNE
from foretune.compiler.networks.known import ZOO
from foretune.completion import known_networks, paths, shipped
from foretune.models.checkpoints.checkpoint import shipped_checkpoints, shipped_explorers


def completed(capsys, monkeypatch, line: str, shell: str = "bash") -> list[str]:
    monkeypatch.setenv("COMP_LINE", line)
    main(["-sc", f"query={shell}"])
    return capsys.readouterr().out.split()


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        ("foretune ", list(FORETUNE.commands)),
        ("foretune tu", list(FORETUNE.commands)),  # the shell keeps those that fit
        ("foretune dataset ", list(FORETUNE.commands["dataset"].commands)),
        ("foretune tune netw", ["network="]),
        ("foretune tune search=high_", ["search=high_efficiency", "search=high_quality"]),
        ("foretune tune search=high_quality search.strategy.p", ["search.strategy.population="]),
        ("foretune tune network=resnet1", ["network=resnet18"]),
        ("foretune tune network=[resnet18,mobilenetv2", ["network=[resnet18,mobilenetv2"]),
        ("foretune tune checkpoint=cpu-l", ["checkpoint=cpu-latency"]),
        ("foretune tune search.strategy.checkpoint=cuda-d", ["search.strategy.checkpoint=cuda-draft"]),
        ("foretune train dataset=da", ["dataset=data/"]),
        ("foretune train dataset=data/", ["dataset=data/mine/", "dataset=data/äb/"]),
        ("foretune checkpoints show cpu-l", ["cpu-latency"]),
        ("foretune dataset inspect data/m", ["data/mine/"]),
        ("foretune nonsense ", []),
    ],
)
@pytest.mark.parametrize("shell", ["bash", "fish"])
def test_words_are_completed(capsys, monkeypatch, tmp_path, shell, line, answer):
    (tmp_path / "data" / "mine").mkdir(parents=True)
    (tmp_path / "data" / "äb").mkdir()
    assert completed(capsys, monkeypatch, line, shell) == answer


@pytest.mark.parametrize("words", [["-sc"], ["tune", "-sc"]])
def test_the_completion_of_bash_is_installed_for_the_program(capsys, words):
    main([*words, "install=bash"])
    assert capsys.readouterr().out.rstrip().endswith("-F hydra_bash_completion foretune")


def test_all_known_networks_and_shipped_checkpoints_are_offered():
    assert known_networks() == [*ZOO]
    assert shipped() == sorted([*shipped_checkpoints(), *shipped_explorers()])


def test_hidden_files_are_offered_on_request(tmp_path):
    (tmp_path / ".hidden").touch()
    (tmp_path / "seen.onnx").touch()
    assert [*paths("")] == ["seen.onnx"] and [*paths(".h")] == [".hidden"]
    assert [*paths("nowhere/x")] == []
