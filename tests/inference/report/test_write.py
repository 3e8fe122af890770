"""Files of a report, and the command that writes them again."""

from __future__ import annotations

from pathlib import Path

import pytest
from foretune.inference.report.__main__ import main
from foretune.inference.report.write import write_report
from support.results import make_result


def test_write_report_and_render_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = write_report(make_result(), tmp_path / "run" / "report")
    first = paths.html.read_text()
    paths.html.unlink()
    main([str(paths.json)])
    assert paths.html.read_text() == first
    assert "fused_conv2d_add_relu" in capsys.readouterr().out
    main([str(paths.json), "--output", str(tmp_path / "copy")])
    assert (tmp_path / "copy" / "report.html").read_text() == first


def test_command_reports_a_missing_file_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        main([str(tmp_path / "nowhere.json")])
    assert caught.value.code == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ") and error.count("\n") == 1
