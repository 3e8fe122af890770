"""Networks of the sweep: public zoos with random weights and without downloads.

`build` is the factory that `foretune tune` loads by import path; torchvision and timm are installed as for
the crawl of operators, `foretune.dataset.sampling.zoo.networks`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any

import torch
from foretune.compiler.networks.inputs import InputSpec
from foretune.compiler.networks.known import ZOO, draw_statistics
from foretune.dataset.sampling.zoo.networks import import_torchvision
from torch import nn

CONVOLUTIONAL = "convolutional"
MOBILE = "mobile"
ATTENTION = "vision attention"
DENSE = "segmentation, detection, pose"
VIDEO = "video"
TEXT = "text encoder"
GENERATIVE = "generative"
SEQUENCE = "speech and sequence"

FACTORY = f"{__name__}:build"


@dataclass(frozen=True)
class Entry:
    """One network of the sweep."""

    zoo: str
    family: str
    build: Callable[[], nn.Module]
    inputs: tuple[InputSpec, ...]


def build(name: str) -> nn.Module:
    """The network with this name, with drawn batch-norm statistics."""
    return draw_statistics(NETWORKS[name].build())


class Called(nn.Module):
    """Network of transformers that accepts its named arguments by position."""

    def __init__(self, network: nn.Module, names: tuple[str, ...]) -> None:
        super().__init__()
        self.network = network
        self.names = names

    def forward(self, *values: torch.Tensor) -> Any:
        return self.network(**dict(zip(self.names, values, strict=True)))


class Heads(nn.Module):
    """Backbone and head of a detection network of torchvision; the later steps depend on values."""

    def __init__(self, network: Any) -> None:
        super().__init__()
        self.backbone = network.backbone
        self.head = network.rpn.head if hasattr(network, "rpn") else network.head

    def forward(self, images: torch.Tensor) -> Any:
        return self.head(list(self.backbone(images).values()))


class Recurrent(nn.Module):
    """Two layers of one recurrent unit of PyTorch and a classifier of each step."""

    def __init__(self, unit: str, **options: Any) -> None:
        super().__init__()
        self.unit = getattr(nn, unit)(64, 128, num_layers=2, batch_first=True, **options)
        self.head = nn.Linear(256 if options.get("bidirectional") else 128, 32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.unit(x)[0])


def _image(side: int) -> tuple[InputSpec, ...]:
    return ({"shape": [1, 3, side, side]},)


def _tokens(vocabulary: int, length: int = 64) -> dict[str, Any]:
    return {"shape": [1, length], "dtype": "int64", "high": vocabulary}


def _pytorchcv(module: str, factory: str, **options: Any) -> nn.Module:
    return getattr(import_module(f"pytorchcv.models.{module}"), factory)(**options)


def _torchvision(path: str, **options: Any) -> nn.Module:
    import_torchvision()
    module, _, factory = path.rpartition(".")
    return getattr(import_module(f"torchvision.models{'.' if module else ''}{module}"), factory)(**options)


def _timm(name: str) -> nn.Module:
    import_torchvision()
    import timm

    return timm.create_model(name)


def _transformers(model: str, config: str, names: tuple[str, ...], settings: Mapping[str, Any]) -> nn.Module:
    with suppress(ImportError):  # transformers runs without torchvision, but not with one of another build
        import_torchvision()
    import transformers

    configuration = getattr(transformers, config)(**settings)
    for option in ("use_cache", "return_dict"):
        if hasattr(configuration, option):
            setattr(configuration, option, option == "return_dict")
    return Called(getattr(transformers, model)(configuration), names)


def _from_pytorchcv(family: str, module: str, factory: str, side: int = 224, **options: Any) -> Entry:
    return Entry("pytorchcv", family, partial(_pytorchcv, module, factory, **options), _image(side))


def _from_torchvision(family: str, path: str, side: int = 224, **options: Any) -> Entry:
    return Entry("torchvision", family, partial(_torchvision, path, weights=None, **options), _image(side))


def _from_timm(family: str, name: str, side: int = 224) -> Entry:
    return Entry("timm", family, partial(_timm, name), _image(side))


def _detector(path: str, side: int) -> Entry:
    def heads() -> nn.Module:
        return Heads(_torchvision(path, weights=None, weights_backbone=None))

    return Entry("torchvision", DENSE, heads, _image(side))


def _from_transformers(
    family: str, name: str, inputs: Mapping[str, InputSpec], *, model: str = "Model", **settings: Any
) -> Entry:
    """`name` is the architecture's name, such as Bert for BertModel and BertConfig."""
    names = tuple(inputs)
    made = partial(_transformers, f"{name}{model}", f"{name}Config", names, settings)
    return Entry("transformers", family, made, tuple(inputs.values()))


def _text(name: str, length: int = 64, model: str = "Model", family: str = TEXT, **settings: Any) -> Entry:
    """A text network of 512 words, with a few layers unless `settings` sets another number."""
    tokens = {"input_ids": _tokens(512, length)}
    return _from_transformers(family, name, tokens, model=model, vocab_size=512, **settings)


def _vision(
    name: str, family: str = ATTENTION, side: int = 224, model: str = "Model", **settings: Any
) -> Entry:
    pixels = {"pixel_values": {"shape": [1, 3, side, side]}}
    return _from_transformers(family, name, pixels, model=model, **settings)


def _decoder(name: str, *, heads: int | None = 4, model: str = "Model", **settings: Any) -> Entry:
    """A text decoder of four layers of 256 channels, with grouped attention if the architecture has it."""
    small = {"hidden_size": 256, "num_hidden_layers": 4, "num_attention_heads": 4, "intermediate_size": 512}
    grouped = {} if heads is None else {"num_key_value_heads": 2}
    return _text(name, family=GENERATIVE, model=model, **{**small, **grouped, **settings})


_SMALL = {"hidden_size": 256, "num_hidden_layers": 4, "num_attention_heads": 4, "intermediate_size": 1024}
_VIT = {**_SMALL, "hidden_size": 192, "num_attention_heads": 3, "intermediate_size": 768}
_SEQ2SEQ = {
    "d_model": 256,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 512,
    "decoder_ffn_dim": 512,
}
_BOTH_TEXTS = {"input_ids": _tokens(512), "decoder_input_ids": _tokens(512, 32)}
_WAVE = {"input_values": {"shape": [1, 16000]}}

NETWORKS: Mapping[str, Entry] = {
    # pytorchcv
    "airnet50": _from_pytorchcv(CONVOLUTIONAL, "airnet", "airnet50_1x64d_r16"),
    "alexnet": _from_pytorchcv(CONVOLUTIONAL, "alexnet", "alexnet"),
    "bagnet9": _from_pytorchcv(CONVOLUTIONAL, "bagnet", "bagnet9"),
    "bninception": _from_pytorchcv(CONVOLUTIONAL, "bninception", "bninception"),
    "cbam_resnet18": _from_pytorchcv(CONVOLUTIONAL, "cbamresnet", "cbam_resnet18"),
    "condensenet74": _from_pytorchcv(CONVOLUTIONAL, "condensenet", "condensenet74_c4_g4"),
    "darknet_tiny": _from_pytorchcv(CONVOLUTIONAL, "darknet", "darknet_tiny"),
    "diracnet18v2": _from_pytorchcv(CONVOLUTIONAL, "diracnetv2", "diracnet18v2"),
    "dla34": _from_pytorchcv(CONVOLUTIONAL, "dla", "dla34"),
    "dpn68": _from_pytorchcv(CONVOLUTIONAL, "dpn", "dpn68"),
    "drnc26": _from_pytorchcv(CONVOLUTIONAL, "drn", "drnc26"),
    "hardnet39ds": _from_pytorchcv(CONVOLUTIONAL, "hardnet", "hardnet39ds"),
    "hrnet_w18_small": _from_pytorchcv(CONVOLUTIONAL, "hrnet", "hrnet_w18_small_v1"),
    "inceptionv3": _from_pytorchcv(CONVOLUTIONAL, "inceptionv3", "inceptionv3", 299),
    "octresnet10": _from_pytorchcv(CONVOLUTIONAL, "octresnet", "octresnet10_ad2"),
    "peleenet": _from_pytorchcv(CONVOLUTIONAL, "peleenet", "peleenet"),
    "preresnet18": _from_pytorchcv(CONVOLUTIONAL, "preresnet", "preresnet18"),
    "resnesta18": _from_pytorchcv(CONVOLUTIONAL, "resnesta", "resnesta18"),
    "resnet18": _from_pytorchcv(CONVOLUTIONAL, "resnet", "resnet18"),
    "resnext26": _from_pytorchcv(CONVOLUTIONAL, "resnext", "resnext26_32x4d"),
    "selecsls42": _from_pytorchcv(CONVOLUTIONAL, "selecsls", "selecsls42"),
    "senet16": _from_pytorchcv(CONVOLUTIONAL, "senet", "senet16"),
    "squeezenet": _from_pytorchcv(CONVOLUTIONAL, "squeezenet", "squeezenet_v1_1"),
    "sqnxt23": _from_pytorchcv(CONVOLUTIONAL, "squeezenext", "sqnxt23_w1"),
    "vovnet27s": _from_pytorchcv(CONVOLUTIONAL, "vovnet", "vovnet27s"),
    "xception": _from_pytorchcv(CONVOLUTIONAL, "xception", "xception", 299),
    "dicenet_w1": _from_pytorchcv(MOBILE, "dicenet", "dicenet_w1"),
    "efficientnet_b0": _from_pytorchcv(MOBILE, "efficientnet", "efficientnet_b0"),
    "espnetv2_w1": _from_pytorchcv(MOBILE, "espnetv2", "espnetv2_w1"),
    "fbnet_cb": _from_pytorchcv(MOBILE, "fbnet", "fbnet_cb"),
    "igcv3_w1": _from_pytorchcv(MOBILE, "igcv3", "igcv3_w1"),
    "menet108": _from_pytorchcv(MOBILE, "menet", "menet108_8x1_g3"),
    "mixnet_s": _from_pytorchcv(MOBILE, "mixnet", "mixnet_s"),
    "mnasnet_a1": _from_pytorchcv(MOBILE, "mnasnet", "mnasnet_a1"),
    "mobilenet_w1": _from_pytorchcv(MOBILE, "mobilenet", "mobilenet_w1"),
    "mobilenetv2_w1": _from_pytorchcv(MOBILE, "mobilenetv2", "mobilenetv2_w1"),
    "mobilenetv3_large": _from_pytorchcv(MOBILE, "mobilenetv3", "mobilenetv3_large_w1"),
    "nasnet_4a1056": _from_pytorchcv(MOBILE, "nasnet", "nasnet_4a1056"),
    "shufflenet_g3": _from_pytorchcv(MOBILE, "shufflenet", "shufflenet_g3_w1"),
    "shufflenetv2_w1": _from_pytorchcv(MOBILE, "shufflenetv2", "shufflenetv2_w1"),
    "bisenet": _from_pytorchcv(DENSE, "bisenet", "bisenet_resnet18_celebamaskhq", 256, in_size=(256, 256)),
    "centernet": _from_pytorchcv(DENSE, "centernet", "centernet_resnet18_voc", 256, in_size=(256, 256)),
    "fastscnn": _from_pytorchcv(DENSE, "fastscnn", "fastscnn_cityscapes", 512, in_size=(512, 512)),
    "lednet": _from_pytorchcv(DENSE, "lednet", "lednet_cityscapes", 256, in_size=(256, 256)),
    "lwopenpose2d": _from_pytorchcv(DENSE, "lwopenpose_cmupan", "lwopenpose2d_mobilenet_cmupan_coco", 192),
    "sinet": _from_pytorchcv(DENSE, "sinet", "sinet_cityscapes", 256, in_size=(256, 256)),
    "unet": _from_pytorchcv(DENSE, "unet", "unet_cityscapes", 128, in_size=(128, 128)),
    "quartznet5x5": Entry(
        "pytorchcv",
        SEQUENCE,
        partial(_pytorchcv, "quartznet", "quartznet5x5_en_ls", from_audio=False),
        ({"shape": [1, 64, 200]}, {"shape": [1], "dtype": "int64", "high": 1}),
    ),
    # torchvision
    "tv_convnext_tiny": _from_torchvision(CONVOLUTIONAL, "convnext_tiny"),
    "tv_googlenet": _from_torchvision(CONVOLUTIONAL, "googlenet", init_weights=False, aux_logits=False),
    "tv_regnet_y_400mf": _from_torchvision(MOBILE, "regnet_y_400mf"),
    "tv_maxvit_t": _from_torchvision(ATTENTION, "maxvit_t"),
    "tv_swin_t": _from_torchvision(ATTENTION, "swin_t"),
    "tv_vit_b_32": _from_torchvision(ATTENTION, "vit_b_32"),
    "tv_deeplabv3_mobilenet": _from_torchvision(
        DENSE, "segmentation.deeplabv3_mobilenet_v3_large", 256, weights_backbone=None
    ),
    "tv_fcn_resnet50": _from_torchvision(DENSE, "segmentation.fcn_resnet50", 128, weights_backbone=None),
    "tv_lraspp_mobilenet": _from_torchvision(
        DENSE, "segmentation.lraspp_mobilenet_v3_large", 256, weights_backbone=None
    ),
    "tv_retinanet": _detector("detection.retinanet_resnet50_fpn", 128),
    "tv_ssdlite": _detector("detection.ssdlite320_mobilenet_v3_large", 320),
    "tv_fasterrcnn_mobilenet": _detector("detection.fasterrcnn_mobilenet_v3_large_fpn", 224),
    "tv_r3d_18": Entry(
        "torchvision",
        VIDEO,
        partial(_torchvision, "video.r3d_18", weights=None),
        ({"shape": [1, 3, 8, 64, 64]},),
    ),
    # timm
    "timm_convnextv2_atto": _from_timm(CONVOLUTIONAL, "convnextv2_atto"),
    "timm_inception_next_atto": _from_timm(CONVOLUTIONAL, "inception_next_atto"),
    "timm_nf_regnet_b0": _from_timm(CONVOLUTIONAL, "nf_regnet_b0"),
    "timm_repvgg_a0": _from_timm(CONVOLUTIONAL, "repvgg_a0"),
    "timm_res2net50_14w_8s": _from_timm(CONVOLUTIONAL, "res2net50_14w_8s"),
    "timm_edgenext_xx_small": _from_timm(MOBILE, "edgenext_xx_small", 256),
    "timm_efficientformer_l1": _from_timm(MOBILE, "efficientformer_l1"),
    "timm_efficientvit_b0": _from_timm(MOBILE, "efficientvit_b0"),
    "timm_fastvit_t8": _from_timm(MOBILE, "fastvit_t8", 256),
    "timm_ghostnetv2_100": _from_timm(MOBILE, "ghostnetv2_100"),
    "timm_hardcorenas_a": _from_timm(MOBILE, "hardcorenas_a"),
    "timm_lcnet_050": _from_timm(MOBILE, "lcnet_050"),
    "timm_mobilenetv4_conv_small": _from_timm(MOBILE, "mobilenetv4_conv_small"),
    "timm_mobileone_s0": _from_timm(MOBILE, "mobileone_s0"),
    "timm_mobilevit_xxs": _from_timm(MOBILE, "mobilevit_xxs", 256),
    "timm_starnet_s1": _from_timm(MOBILE, "starnet_s1"),
    "timm_cait_xxs24": _from_timm(ATTENTION, "cait_xxs24_224"),
    "timm_coat_lite_tiny": _from_timm(ATTENTION, "coat_lite_tiny"),
    "timm_crossvit_tiny": _from_timm(ATTENTION, "crossvit_tiny_240", 240),
    "timm_deit_tiny": _from_timm(ATTENTION, "deit_tiny_patch16_224"),
    "timm_eva02_tiny": _from_timm(ATTENTION, "eva02_tiny_patch14_224"),
    "timm_gmlp_s16": _from_timm(ATTENTION, "gmlp_s16_224"),
    "timm_levit_128s": _from_timm(ATTENTION, "levit_128s"),
    "timm_mixer_s32": _from_timm(ATTENTION, "mixer_s32_224"),
    "timm_poolformer_s12": _from_timm(ATTENTION, "poolformer_s12"),
    "timm_pvt_v2_b0": _from_timm(ATTENTION, "pvt_v2_b0"),
    "timm_swinv2_tiny": _from_timm(ATTENTION, "swinv2_tiny_window8_256", 256),
    "timm_tiny_vit_5m": _from_timm(ATTENTION, "tiny_vit_5m_224"),
    "timm_visformer_tiny": _from_timm(ATTENTION, "visformer_tiny"),
    "timm_xcit_nano": _from_timm(ATTENTION, "xcit_nano_12_p16_224"),
    # transformers
    "hf_beit": _vision("Beit", **_VIT),
    "hf_dinov2": _vision("Dinov2", **_VIT, image_size=224),
    "hf_segformer": _vision("Segformer", DENSE, model="ForSemanticSegmentation"),
    "hf_vit": _vision("ViT", **_VIT),
    "hf_yolos": _vision("Yolos", DENSE, **_VIT, image_size=[224, 224], model="ForObjectDetection"),
    "hf_dpt": _vision("DPT", DENSE, **_VIT, backbone_out_indices=[0, 1, 2, 3], model="ForDepthEstimation"),
    "hf_clip_text": _from_transformers(
        TEXT, "CLIPText", {"input_ids": _tokens(512)}, vocab_size=512, num_hidden_layers=4, eos_token_id=511
    ),
    "hf_albert": _text("Albert", **_SMALL),
    "hf_bert": _text("Bert", **_SMALL),
    "hf_convbert": _text("ConvBert", **_SMALL),
    "hf_deberta_v2": _text(
        "DebertaV2", **_SMALL, relative_attention=True, position_buckets=32, pos_att_type=["p2c", "c2p"]
    ),
    "hf_distilbert": _text("DistilBert", dim=256, n_layers=4, n_heads=4, hidden_dim=1024),
    "hf_electra": _text("Electra", **_SMALL),
    "hf_fnet": _text("FNet", hidden_size=256, num_hidden_layers=4, intermediate_size=1024),
    "hf_mobilebert": _text("MobileBert", num_hidden_layers=4),
    "hf_roberta": _text("Roberta", **_SMALL),
    "hf_squeezebert": _text("SqueezeBert", num_hidden_layers=4),
    "hf_xlnet": _text("XLNet", d_model=256, n_layer=4, n_head=4, d_inner=1024),
    "hf_bloom": _text("Bloom", family=GENERATIVE, hidden_size=256, n_layer=4, n_head=4),
    "hf_falcon": _text(
        "Falcon", family=GENERATIVE, hidden_size=256, num_hidden_layers=4, num_attention_heads=4
    ),
    "hf_gemma": _decoder("Gemma", head_dim=64),
    "hf_gpt2": _text("GPT2", family=GENERATIVE, n_embd=256, n_layer=4, n_head=4),
    "hf_gpt_neox": _decoder("GPTNeoX", heads=None),
    "hf_llama": _decoder("Llama", model="ForCausalLM"),
    "hf_mamba": _text("Mamba", 16, family=GENERATIVE, hidden_size=128, num_hidden_layers=2),
    "hf_mistral": _decoder("Mistral"),
    "hf_opt": _text(
        "OPT",
        family=GENERATIVE,
        hidden_size=256,
        word_embed_proj_dim=256,
        num_hidden_layers=4,
        num_attention_heads=4,
        ffn_dim=512,
    ),
    "hf_phi": _decoder("Phi", heads=None),
    "hf_qwen2": _decoder("Qwen2"),
    "hf_bart": _from_transformers(GENERATIVE, "Bart", _BOTH_TEXTS, vocab_size=512, **_SEQ2SEQ),
    "hf_t5": _from_transformers(
        GENERATIVE, "T5", _BOTH_TEXTS, vocab_size=512, d_model=256, num_layers=2, num_heads=4, d_ff=512
    ),
    "dcgan": Entry("foretune", GENERATIVE, ZOO["dcgan"].build, ({"shape": [1, 100, 1, 1]},)),
    "hf_ast": _from_transformers(
        SEQUENCE, "AST", {"input_values": {"shape": [1, 256, 128]}}, max_length=256, **_VIT
    ),
    "hf_encodec": _from_transformers(
        SEQUENCE, "Encodec", {"input_values": {"shape": [1, 1, 4800]}}, num_filters=8
    ),
    "hf_hubert": _from_transformers(SEQUENCE, "Hubert", _WAVE, **_SMALL),
    "hf_patchtst": _from_transformers(
        SEQUENCE,
        "PatchTST",
        {"past_values": {"shape": [1, 128, 4]}},
        num_input_channels=4,
        context_length=128,
        patch_length=16,
        patch_stride=16,
    ),
    "hf_wav2vec2": _from_transformers(SEQUENCE, "Wav2Vec2", _WAVE, **_SMALL),
    "hf_whisper": _from_transformers(
        SEQUENCE,
        "Whisper",
        {"input_features": {"shape": [1, 80, 200]}, "decoder_input_ids": _tokens(512, 16)},
        vocab_size=512,
        max_source_positions=100,
        pad_token_id=0,
        **_SEQ2SEQ,
    ),
    "lstm": Entry("torch", SEQUENCE, partial(Recurrent, "LSTM"), ({"shape": [1, 32, 64]},)),
    "lstm_bidirectional": Entry(
        "torch", SEQUENCE, partial(Recurrent, "LSTM", bidirectional=True), ({"shape": [1, 32, 64]},)
    ),
    "gru": Entry("torch", SEQUENCE, partial(Recurrent, "GRU"), ({"shape": [1, 32, 64]},)),
}
"""Networks by their name in a result."""

NOT_COUNTED: Mapping[str, str] = {
    "pytorchcv ntsnet_cub": "needs np.int, which NumPy has removed",
    "pytorchcv regnet": "needs np.int, which NumPy has removed",
    "transformers DETR": "downloads its backbone",
}
"""Networks that do not run in PyTorch itself here, with the reason."""
