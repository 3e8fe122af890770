"""Vision networks: images of 32 to 96 pixels."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from torch import nn

from ..zoos import (
    ATTENTION,
    CONVOLUTIONAL,
    DENSE,
    MOBILE,
    VIDEO,
    Entry,
    from_pytorchcv,
    from_timm,
    from_torchvision,
    from_transformers,
    image,
    timm_network,
    tokens,
    torchvision_network,
    vision,
)

_VIT = {
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 128,
    "image_size": 64,
    "patch_size": 16,
}
_STAGES = {"depths": [1, 1, 1, 1], "hidden_sizes": [16, 32, 48, 64]}
_BACKBONE = {"model_type": "resnet", "embedding_size": 16, "layer_type": "basic", **_STAGES}
_TEXT = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128}
_BOTH = {"input_ids": tokens(128, 8), "pixel_values": {"shape": [1, 3, 64, 64]}}


def _towers(name: str, **further: Any) -> Entry:
    """An image and a text tower."""
    given = {
        "text_config": {**_TEXT, "vocab_size": 128, "projection_dim": 32, **further},
        "vision_config": _VIT,
    }
    return from_transformers(ATTENTION, name, _BOTH, **given)


def _timm(family: str, name: str, side: int = 64, **options: Any) -> Entry:
    """A network of timm for images of this size, such as a transformer that has one position per patch."""
    return Entry("timm", family, partial(timm_network, name, **options), image(side))


def _video(path: str, shape: tuple[int, ...]) -> Entry:
    build = partial(torchvision_network, f"video.{path}", weights=None)
    return Entry("torchvision", VIDEO, build, ({"shape": [1, 3, *shape]},))


class _Flow(nn.Module):
    """RAFT with few steps, whose last estimate is the output."""

    def __init__(self) -> None:
        super().__init__()
        self.network = torchvision_network("optical_flow.raft_small", weights=None)

    def forward(self, before: Any, after: Any) -> Any:
        return self.network(before, after, num_flow_updates=2)[-1]


VISIONS: Mapping[str, Entry] = {
    "hf_bit": vision("Bit", CONVOLUTIONAL, 64, **_STAGES, embedding_size=16, num_groups=8),
    "hf_convnext": vision("ConvNext", CONVOLUTIONAL, 64, **_STAGES),
    "hf_convnextv2": vision("ConvNextV2", CONVOLUTIONAL, 64, **_STAGES),
    "hf_regnet": vision("RegNet", CONVOLUTIONAL, 64, **_STAGES, embedding_size=16, groups_width=8),
    "hf_resnet": vision("ResNet", CONVOLUTIONAL, 64, **_STAGES, embedding_size=16, layer_type="bottleneck"),
    "hf_mobilenet_v1": vision("MobileNetV1", MOBILE, 64, depth_multiplier=0.25),
    "hf_mobilenet_v2": vision("MobileNetV2", MOBILE, 64, depth_multiplier=0.35),
    "hf_mobilevit": vision(
        "MobileViT", MOBILE, 64, hidden_sizes=[16, 24, 32], neck_hidden_sizes=[8, 8, 16, 16, 24, 32, 64]
    ),
    "hf_poolformer": vision("PoolFormer", MOBILE, 64, depths=[1, 1, 1, 1], hidden_sizes=[16, 32, 48, 64]),
    "hf_deit": vision("DeiT", side=64, **_VIT),
    "hf_dinov2_registers": vision("Dinov2WithRegisters", side=64, **_VIT),
    "hf_vit_mae": vision("ViTMAE", side=64, **_VIT, mask_ratio=0.0),
    "hf_vit_msn": vision("ViTMSN", side=64, **_VIT),
    "hf_ijepa": vision("IJepa", side=64, **_VIT),
    "hf_swin": vision(
        "Swin", side=64, image_size=64, embed_dim=16, depths=[1, 1], num_heads=[2, 4], window_size=4
    ),
    "hf_swinv2": vision(
        "Swinv2", side=64, image_size=64, embed_dim=16, depths=[1, 1], num_heads=[2, 4], window_size=4
    ),
    "hf_cvt": vision(
        "Cvt",
        side=64,
        embed_dim=[16, 32, 48],
        num_heads=[1, 2, 3],
        depth=[1, 2, 3],
        drop_path_rate=[0.0, 0.0, 0.0],
    ),
    "hf_pvt": vision("Pvt", side=64, image_size=64, depths=[1, 1, 1, 1], hidden_sizes=[16, 32, 40, 64]),
    "hf_focalnet": vision("FocalNet", side=64, image_size=64, embed_dim=16, depths=[1, 1, 1, 1]),
    "hf_hiera": vision(
        "Hiera", side=64, image_size=[64, 64], embed_dim=16, depths=[1, 1, 1, 1], num_heads=[1, 2, 4, 8]
    ),
    "hf_levit": vision("Levit", side=64, image_size=64, hidden_sizes=[32, 48, 64], depths=[1, 1, 1]),
    "hf_clip_vision": vision("CLIPVision", side=64, **_VIT),
    "hf_siglip_vision": vision("SiglipVision", side=64, **_VIT),
    "hf_clip": _towers("CLIP", eos_token_id=127),
    "hf_siglip": _towers("Siglip", max_position_embeddings=8),
    "hf_chinese_clip": _towers("ChineseCLIP"),
    "hf_vilt": from_transformers(
        ATTENTION,
        "Vilt",
        {"input_ids": tokens(128, 8), "pixel_values": {"shape": [1, 3, 64, 64]}},
        **{**_VIT, "vocab_size": 128, "max_image_length": 16},
    ),
    "hf_detr": vision(
        "Detr",
        DENSE,
        64,
        "ForObjectDetection",
        d_model=32,
        encoder_layers=1,
        decoder_layers=1,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=64,
        decoder_ffn_dim=64,
        num_queries=10,
        use_timm_backbone=False,
        use_pretrained_backbone=False,
        backbone=None,
        backbone_config={**_BACKBONE, "out_features": ["stage4"]},
    ),
    "hf_glpn": vision(
        "GLPN",
        DENSE,
        64,
        "ForDepthEstimation",
        depths=[1, 1, 1, 1],
        hidden_sizes=[16, 32, 40, 64],
        decoder_hidden_size=16,
    ),
    "hf_upernet": vision(
        "UperNet",
        DENSE,
        64,
        "ForSemanticSegmentation",
        hidden_size=32,
        backbone_config={**_BACKBONE, "out_features": ["stage1", "stage2", "stage3", "stage4"]},
        auxiliary_in_channels=48,
        auxiliary_channels=16,
    ),
    "hf_swin2sr": vision(
        "Swin2SR",
        DENSE,
        32,
        "ForImageSuperResolution",
        image_size=32,
        embed_dim=16,
        depths=[1],
        num_heads=[2],
    ),
    "hf_vitdet": vision("VitDet", DENSE, 64, **{**_VIT, "pretrain_image_size": 64}),
    "hf_perceiver": from_transformers(
        ATTENTION,
        "Perceiver",
        {"inputs": {"shape": [1, 16, 32]}},
        num_latents=8,
        d_latents=32,
        d_model=32,
        num_blocks=1,
        num_self_attends_per_block=2,
        num_self_attention_heads=4,
        num_cross_attention_heads=4,
    ),
    "hf_timesformer": from_transformers(
        VIDEO, "Timesformer", {"pixel_values": {"shape": [1, 2, 3, 64, 64]}}, **_VIT, num_frames=2
    ),
    "hf_videomae": from_transformers(
        VIDEO,
        "VideoMAE",
        {"pixel_values": {"shape": [1, 2, 3, 64, 64]}},
        **_VIT,
        num_frames=2,
        tubelet_size=1,
    ),
    "hf_vivit": from_transformers(
        VIDEO,
        "Vivit",
        {"pixel_values": {"shape": [1, 2, 3, 64, 64]}},
        **{**_VIT, "num_frames": 2, "tubelet_size": [1, 16, 16]},
    ),
    # torchvision
    "tv_densenet121": from_torchvision(CONVOLUTIONAL, "densenet121", 64),
    "tv_inception_v3": from_torchvision(
        CONVOLUTIONAL, "inception_v3", 96, init_weights=False, aux_logits=False
    ),
    "tv_mnasnet0_5": from_torchvision(MOBILE, "mnasnet0_5", 64),
    "tv_resnext50": from_torchvision(CONVOLUTIONAL, "resnext50_32x4d", 64),
    "tv_shufflenet_v2": from_torchvision(MOBILE, "shufflenet_v2_x0_5", 64),
    "tv_vgg11_bn": from_torchvision(CONVOLUTIONAL, "vgg11_bn", 64),
    "tv_r2plus1d_18": _video("r2plus1d_18", (4, 32, 32)),
    "tv_mc3_18": _video("mc3_18", (4, 32, 32)),
    "tv_raft_small": Entry("torchvision", DENSE, _Flow, ({"shape": [1, 3, 128, 128]},) * 2),
    # timm
    "timm_beit_small": _timm(
        ATTENTION, "beitv2_base_patch16_224", img_size=64, depth=2, embed_dim=64, num_heads=4
    ),
    "timm_coatnet": _timm(ATTENTION, "coatnet_nano_rw_224", img_size=64),
    "timm_convmixer": from_timm(CONVOLUTIONAL, "convmixer_768_32", 64),
    "timm_davit": _timm(
        ATTENTION, "davit_tiny", depths=(1, 1, 1, 1), embed_dims=(16, 32, 48, 64), num_heads=(1, 2, 3, 4)
    ),
    "timm_gcvit": _timm(ATTENTION, "gcvit_xxtiny", 64, img_size=64),
    "timm_ghostnet": from_timm(MOBILE, "ghostnet_050", 64),
    "timm_hgnet": from_timm(CONVOLUTIONAL, "hgnetv2_b0", 64),
    "timm_mambaout": from_timm(CONVOLUTIONAL, "mambaout_femto", 64),
    "timm_nfnet": from_timm(CONVOLUTIONAL, "dm_nfnet_f0", 64),
    "timm_pit": _timm(ATTENTION, "pit_ti_224", img_size=64),
    "timm_repghostnet": from_timm(MOBILE, "repghostnet_050", 64),
    "timm_rexnet": from_timm(MOBILE, "rexnet_100", 64),
    "timm_sequencer": _timm(ATTENTION, "sequencer2d_s", 64, img_size=64, layers=(1, 1, 1, 1)),
    "timm_twins": _timm(ATTENTION, "twins_svt_small", 64, img_size=64, depths=(1, 1, 1, 1)),
    "timm_vit_tiny": _timm(ATTENTION, "vit_tiny_patch16_224", img_size=64, depth=2),
    "timm_volo": _timm(ATTENTION, "volo_d1_224", 64, img_size=64),
    # pytorchcv
    "cv_fishnet": from_pytorchcv(CONVOLUTIONAL, "fishnet", "fishnet99"),
    "cv_mobilenetv3_small": from_pytorchcv(MOBILE, "mobilenetv3", "mobilenetv3_small_w7d20"),
    "cv_proxylessnas": from_pytorchcv(MOBILE, "proxylessnas", "proxylessnas_mobile"),
    "cv_scnet50": from_pytorchcv(CONVOLUTIONAL, "scnet", "scnet50"),
    "cv_sknet50": from_pytorchcv(CONVOLUTIONAL, "sknet", "sknet50"),
    "cv_lednet": from_pytorchcv(DENSE, "lednet", "lednet_cityscapes", 128, in_size=(128, 128)),
}
