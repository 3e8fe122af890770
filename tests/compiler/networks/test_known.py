"""Networks known by name build and run."""

from __future__ import annotations

from foretune.compiler.networks import load_network


def test_dcgan_makes_an_image_of_64_by_64() -> None:
    (image,) = load_network("dcgan").reference_outputs()
    assert image.shape == (1, 3, 64, 64)
    assert abs(image).max() <= 1  # a hyperbolic tangent
