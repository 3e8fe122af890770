"""Residence and register tiles of chains, by hand."""

from __future__ import annotations

from dataclasses import replace

from foretune.compiler.instruction_sets import INSTRUCTION
from foretune.compiler.templates.cpu.chains.chain import Chain, ChainStage, read_chain
from foretune.compiler.templates.cpu.chains.chain_template import (
    chain_templates,
    cycles,
    register_tile,
    resident_bytes,
    rows_read,
)
from foretune.dataset.hardware import Hardware

from tests.support.contractions import Convolution, Product

FMA = INSTRUCTION["avx512_fma"]
EXPAND = ChainStage("a", "a1", (), (), rows=(1, 14, 14), columns=96, depth=16)
DEPTHWISE = ChainStage("b", "b1", (), ("pad",), rows=(1, 7, 14), columns=96, depth=9, window=3, stride=2)
PROJECT = ChainStage("c", "c1", (), (), rows=(1, 7, 14), columns=16, depth=96)
BLOCK = Chain((EXPAND, DEPTHWISE, PROJECT))
MATRIX = ChainStage("d", "d1", (), (), rows=(64,), columns=32, depth=24)
PAIR = Chain((MATRIX, replace(MATRIX, block="e", depth=32)))
HARDWARE = Hardware("cpu", "cpu", 2, 3.0, 512, 48 << 10, 2 << 20, 8 << 20, 100.0, 20.0)


def test_a_block_reads_the_lines_of_its_windows() -> None:
    """Three lines of the projection take three depthwise lines, and 2 * 2 + 3 = 7 of the expansion."""
    assert rows_read(BLOCK, 3) == [7, 3, 3]
    assert rows_read(PAIR, 16) == [16, 16]


def test_residence_counts_what_is_between_the_products() -> None:
    """Lines of 14 * 96 float32 have 5,376 bytes: 7 of them twice, with their padded copy, and 3 once."""
    assert resident_bytes(BLOCK, 3) == (2 * 7 + 3) * 5376
    assert resident_bytes(PAIR, 16) == 16 * 32 * 4
    rows = replace(MATRIX, rows=(2, 64))
    assert (rows.blocked, rows.across, EXPAND.blocked, EXPAND.across) == (1, 1, 1, 14)


def test_blocks_stay_within_half_of_the_second_cache() -> None:
    blocks = {template.block for template in chain_templates(PAIR, [FMA], HARDWARE, 2)}
    assert blocks == {1, 2, 4, 8, 16, 32, 64}
    small = replace(HARDWARE, l2_bytes=2 * 8 * 128)  # eight rows of 128 bytes in half of it
    assert max(template.block for template in chain_templates(PAIR, [FMA], small, 2)) == 8
    assert chain_templates(PAIR, [FMA], replace(HARDWARE, l2_bytes=255), 2) == []
    assert chain_templates(PAIR, [INSTRUCTION["amx_bf16"]], HARDWARE, 2) == []


def test_the_first_template_keeps_all_cores_busy() -> None:
    first, *others = chain_templates(PAIR, [FMA], HARDWARE, 2)
    assert first.block <= 32
    estimates = [cycles(PAIR, template, HARDWARE.l1_bytes, 2) for template in (first, *others)]
    assert estimates == sorted(estimates)


def test_register_tiles_fit_rows_and_registers() -> None:
    assert register_tile(14, 6, FMA) == (14, 2)  # 28 sums, 2 weights and a row of data
    assert register_tile(7, 1, FMA) == (7, 1)
    rows, vectors = register_tile(64, 8, FMA)
    assert rows * vectors + vectors + 1 <= FMA.registers and 64 % rows == 0


def test_a_single_product_is_no_chain() -> None:
    assert read_chain(Product(32, 64, 64, epilogue="relu").module()) is None
    assert read_chain(Convolution(9, 8, 16, kernel=3, padding=1).module()) is None
