"""Networks of the sweep: public zoos with random weights and without downloads.

`build` is the factory that `foretune tune` loads by import path.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from foretune.compiler.networks.known import ZOO, draw_statistics
from torch import nn

from .zoos import (
    ATTENTION,
    BOTH_TEXTS,
    CONVOLUTIONAL,
    DENSE,
    GENERATIVE,
    MOBILE,
    SEQ2SEQ,
    SEQUENCE,
    SMALL,
    TEXT,
    VIDEO,
    VIT,
    WAVE,
    Entry,
    Recurrent,
    decoder,
    detector,
    from_pytorchcv,
    from_timm,
    from_torchvision,
    from_transformers,
    pytorchcv_network,
    text,
    tokens,
    torchvision_network,
    vision,
)

FACTORY = f"{__name__}:build"


def build(name: str) -> nn.Module:
    """The network with this name, with drawn batch-norm statistics."""
    return draw_statistics(NETWORKS[name].build())


NETWORKS: Mapping[str, Entry] = {
    # pytorchcv
    "airnet50": from_pytorchcv(CONVOLUTIONAL, "airnet", "airnet50_1x64d_r16"),
    "alexnet": from_pytorchcv(CONVOLUTIONAL, "alexnet", "alexnet"),
    "bagnet9": from_pytorchcv(CONVOLUTIONAL, "bagnet", "bagnet9"),
    "bninception": from_pytorchcv(CONVOLUTIONAL, "bninception", "bninception"),
    "cbam_resnet18": from_pytorchcv(CONVOLUTIONAL, "cbamresnet", "cbam_resnet18"),
    "condensenet74": from_pytorchcv(CONVOLUTIONAL, "condensenet", "condensenet74_c4_g4"),
    "darknet_tiny": from_pytorchcv(CONVOLUTIONAL, "darknet", "darknet_tiny"),
    "diracnet18v2": from_pytorchcv(CONVOLUTIONAL, "diracnetv2", "diracnet18v2"),
    "dla34": from_pytorchcv(CONVOLUTIONAL, "dla", "dla34"),
    "dpn68": from_pytorchcv(CONVOLUTIONAL, "dpn", "dpn68"),
    "drnc26": from_pytorchcv(CONVOLUTIONAL, "drn", "drnc26"),
    "hardnet39ds": from_pytorchcv(CONVOLUTIONAL, "hardnet", "hardnet39ds"),
    "hrnet_w18_small": from_pytorchcv(CONVOLUTIONAL, "hrnet", "hrnet_w18_small_v1"),
    "inceptionv3": from_pytorchcv(CONVOLUTIONAL, "inceptionv3", "inceptionv3", 299),
    "octresnet10": from_pytorchcv(CONVOLUTIONAL, "octresnet", "octresnet10_ad2"),
    "peleenet": from_pytorchcv(CONVOLUTIONAL, "peleenet", "peleenet"),
    "preresnet18": from_pytorchcv(CONVOLUTIONAL, "preresnet", "preresnet18"),
    "resnesta18": from_pytorchcv(CONVOLUTIONAL, "resnesta", "resnesta18"),
    "resnet18": from_pytorchcv(CONVOLUTIONAL, "resnet", "resnet18"),
    "resnext26": from_pytorchcv(CONVOLUTIONAL, "resnext", "resnext26_32x4d"),
    "selecsls42": from_pytorchcv(CONVOLUTIONAL, "selecsls", "selecsls42"),
    "senet16": from_pytorchcv(CONVOLUTIONAL, "senet", "senet16"),
    "squeezenet": from_pytorchcv(CONVOLUTIONAL, "squeezenet", "squeezenet_v1_1"),
    "sqnxt23": from_pytorchcv(CONVOLUTIONAL, "squeezenext", "sqnxt23_w1"),
    "vovnet27s": from_pytorchcv(CONVOLUTIONAL, "vovnet", "vovnet27s"),
    "xception": from_pytorchcv(CONVOLUTIONAL, "xception", "xception", 299),
    "dicenet_w1": from_pytorchcv(MOBILE, "dicenet", "dicenet_w1"),
    "efficientnet_b0": from_pytorchcv(MOBILE, "efficientnet", "efficientnet_b0"),
    "espnetv2_w1": from_pytorchcv(MOBILE, "espnetv2", "espnetv2_w1"),
    "fbnet_cb": from_pytorchcv(MOBILE, "fbnet", "fbnet_cb"),
    "igcv3_w1": from_pytorchcv(MOBILE, "igcv3", "igcv3_w1"),
    "menet108": from_pytorchcv(MOBILE, "menet", "menet108_8x1_g3"),
    "mixnet_s": from_pytorchcv(MOBILE, "mixnet", "mixnet_s"),
    "mnasnet_a1": from_pytorchcv(MOBILE, "mnasnet", "mnasnet_a1"),
    "mobilenet_w1": from_pytorchcv(MOBILE, "mobilenet", "mobilenet_w1"),
    "mobilenetv2_w1": from_pytorchcv(MOBILE, "mobilenetv2", "mobilenetv2_w1"),
    "mobilenetv3_large": from_pytorchcv(MOBILE, "mobilenetv3", "mobilenetv3_large_w1"),
    "nasnet_4a1056": from_pytorchcv(MOBILE, "nasnet", "nasnet_4a1056"),
    "shufflenet_g3": from_pytorchcv(MOBILE, "shufflenet", "shufflenet_g3_w1"),
    "shufflenetv2_w1": from_pytorchcv(MOBILE, "shufflenetv2", "shufflenetv2_w1"),
    "bisenet": from_pytorchcv(DENSE, "bisenet", "bisenet_resnet18_celebamaskhq", 256, in_size=(256, 256)),
    "centernet": from_pytorchcv(DENSE, "centernet", "centernet_resnet18_voc", 256, in_size=(256, 256)),
    "fastscnn": from_pytorchcv(DENSE, "fastscnn", "fastscnn_cityscapes", 512, in_size=(512, 512)),
    "lednet": from_pytorchcv(DENSE, "lednet", "lednet_cityscapes", 256, in_size=(256, 256)),
    "lwopenpose2d": from_pytorchcv(DENSE, "lwopenpose_cmupan", "lwopenpose2d_mobilenet_cmupan_coco", 192),
    "sinet": from_pytorchcv(DENSE, "sinet", "sinet_cityscapes", 256, in_size=(256, 256)),
    "unet": from_pytorchcv(DENSE, "unet", "unet_cityscapes", 128, in_size=(128, 128)),
    "quartznet5x5": Entry(
        "pytorchcv",
        SEQUENCE,
        partial(pytorchcv_network, "quartznet", "quartznet5x5_en_ls", from_audio=False),
        ({"shape": [1, 64, 200]}, {"shape": [1], "dtype": "int64", "high": 1}),
    ),
    # torchvision
    "tv_convnext_tiny": from_torchvision(CONVOLUTIONAL, "convnext_tiny"),
    "tv_googlenet": from_torchvision(CONVOLUTIONAL, "googlenet", init_weights=False, aux_logits=False),
    "tv_regnet_y_400mf": from_torchvision(MOBILE, "regnet_y_400mf"),
    "tv_maxvit_t": from_torchvision(ATTENTION, "maxvit_t"),
    "tv_swin_t": from_torchvision(ATTENTION, "swin_t"),
    "tv_vit_b_32": from_torchvision(ATTENTION, "vit_b_32"),
    "tv_deeplabv3_mobilenet": from_torchvision(
        DENSE, "segmentation.deeplabv3_mobilenet_v3_large", 256, weights_backbone=None
    ),
    "tv_fcn_resnet50": from_torchvision(DENSE, "segmentation.fcn_resnet50", 128, weights_backbone=None),
    "tv_lraspp_mobilenet": from_torchvision(
        DENSE, "segmentation.lraspp_mobilenet_v3_large", 256, weights_backbone=None
    ),
    "tv_retinanet": detector("detection.retinanet_resnet50_fpn", 128),
    "tv_ssdlite": detector("detection.ssdlite320_mobilenet_v3_large", 320),
    "tv_fasterrcnn_mobilenet": detector("detection.fasterrcnn_mobilenet_v3_large_fpn", 224),
    "tv_r3d_18": Entry(
        "torchvision",
        VIDEO,
        partial(torchvision_network, "video.r3d_18", weights=None),
        ({"shape": [1, 3, 8, 64, 64]},),
    ),
    # timm
    "timm_convnextv2_atto": from_timm(CONVOLUTIONAL, "convnextv2_atto"),
    "timm_inception_next_atto": from_timm(CONVOLUTIONAL, "inception_next_atto"),
    "timm_nf_regnet_b0": from_timm(CONVOLUTIONAL, "nf_regnet_b0"),
    "timm_repvgg_a0": from_timm(CONVOLUTIONAL, "repvgg_a0"),
    "timm_res2net50_14w_8s": from_timm(CONVOLUTIONAL, "res2net50_14w_8s"),
    "timm_edgenext_xx_small": from_timm(MOBILE, "edgenext_xx_small", 256),
    "timm_efficientformer_l1": from_timm(MOBILE, "efficientformer_l1"),
    "timm_efficientvit_b0": from_timm(MOBILE, "efficientvit_b0"),
    "timm_fastvit_t8": from_timm(MOBILE, "fastvit_t8", 256),
    "timm_ghostnetv2_100": from_timm(MOBILE, "ghostnetv2_100"),
    "timm_hardcorenas_a": from_timm(MOBILE, "hardcorenas_a"),
    "timm_lcnet_050": from_timm(MOBILE, "lcnet_050"),
    "timm_mobilenetv4_conv_small": from_timm(MOBILE, "mobilenetv4_conv_small"),
    "timm_mobileone_s0": from_timm(MOBILE, "mobileone_s0"),
    "timm_mobilevit_xxs": from_timm(MOBILE, "mobilevit_xxs", 256),
    "timm_starnet_s1": from_timm(MOBILE, "starnet_s1"),
    "timm_cait_xxs24": from_timm(ATTENTION, "cait_xxs24_224"),
    "timm_coat_lite_tiny": from_timm(ATTENTION, "coat_lite_tiny"),
    "timm_crossvit_tiny": from_timm(ATTENTION, "crossvit_tiny_240", 240),
    "timm_deit_tiny": from_timm(ATTENTION, "deit_tiny_patch16_224"),
    "timm_eva02_tiny": from_timm(ATTENTION, "eva02_tiny_patch14_224"),
    "timm_gmlp_s16": from_timm(ATTENTION, "gmlp_s16_224"),
    "timm_levit_128s": from_timm(ATTENTION, "levit_128s"),
    "timm_mixer_s32": from_timm(ATTENTION, "mixer_s32_224"),
    "timm_poolformer_s12": from_timm(ATTENTION, "poolformer_s12"),
    "timm_pvt_v2_b0": from_timm(ATTENTION, "pvt_v2_b0"),
    "timm_swinv2_tiny": from_timm(ATTENTION, "swinv2_tiny_window8_256", 256),
    "timm_tiny_vit_5m": from_timm(ATTENTION, "tiny_vit_5m_224"),
    "timm_visformer_tiny": from_timm(ATTENTION, "visformer_tiny"),
    "timm_xcit_nano": from_timm(ATTENTION, "xcit_nano_12_p16_224"),
    # transformers
    "hf_beit": vision("Beit", **VIT),
    "hf_dinov2": vision("Dinov2", **VIT, image_size=224),
    "hf_segformer": vision("Segformer", DENSE, model="ForSemanticSegmentation"),
    "hf_vit": vision("ViT", **VIT),
    "hf_yolos": vision("Yolos", DENSE, **VIT, image_size=[224, 224], model="ForObjectDetection"),
    "hf_dpt": vision("DPT", DENSE, **VIT, backbone_out_indices=[0, 1, 2, 3], model="ForDepthEstimation"),
    "hf_clip_text": from_transformers(
        TEXT, "CLIPText", {"input_ids": tokens(512)}, vocab_size=512, num_hidden_layers=4, eos_token_id=511
    ),
    "hf_albert": text("Albert", **SMALL),
    "hf_bert": text("Bert", **SMALL),
    "hf_convbert": text("ConvBert", **SMALL),
    "hf_deberta_v2": text(
        "DebertaV2", **SMALL, relative_attention=True, position_buckets=32, pos_att_type=["p2c", "c2p"]
    ),
    "hf_distilbert": text("DistilBert", dim=256, n_layers=4, n_heads=4, hidden_dim=1024),
    "hf_electra": text("Electra", **SMALL),
    "hf_fnet": text("FNet", hidden_size=256, num_hidden_layers=4, intermediate_size=1024),
    "hf_mobilebert": text("MobileBert", num_hidden_layers=4),
    "hf_roberta": text("Roberta", **SMALL),
    "hf_squeezebert": text("SqueezeBert", num_hidden_layers=4),
    "hf_xlnet": text("XLNet", d_model=256, n_layer=4, n_head=4, d_inner=1024),
    "hf_bloom": text("Bloom", family=GENERATIVE, hidden_size=256, n_layer=4, n_head=4),
    "hf_falcon": text(
        "Falcon", family=GENERATIVE, hidden_size=256, num_hidden_layers=4, num_attention_heads=4
    ),
    "hf_gemma": decoder("Gemma", head_dim=64),
    "hf_gpt2": text("GPT2", family=GENERATIVE, n_embd=256, n_layer=4, n_head=4),
    "hf_gpt_neox": decoder("GPTNeoX", heads=None),
    "hf_llama": decoder("Llama", model="ForCausalLM"),
    "hf_mamba": text("Mamba", 16, family=GENERATIVE, hidden_size=128, num_hidden_layers=2),
    "hf_mistral": decoder("Mistral"),
    "hf_opt": text(
        "OPT",
        family=GENERATIVE,
        hidden_size=256,
        word_embed_proj_dim=256,
        num_hidden_layers=4,
        num_attention_heads=4,
        ffn_dim=512,
    ),
    "hf_phi": decoder("Phi", heads=None),
    "hf_qwen2": decoder("Qwen2"),
    "hf_bart": from_transformers(GENERATIVE, "Bart", BOTH_TEXTS, vocab_size=512, **SEQ2SEQ),
    "hf_t5": from_transformers(
        GENERATIVE, "T5", BOTH_TEXTS, vocab_size=512, d_model=256, num_layers=2, num_heads=4, d_ff=512
    ),
    "dcgan": Entry("foretune", GENERATIVE, ZOO["dcgan"].build, ({"shape": [1, 100, 1, 1]},)),
    "hf_ast": from_transformers(
        SEQUENCE, "AST", {"input_values": {"shape": [1, 256, 128]}}, max_length=256, **VIT
    ),
    "hf_encodec": from_transformers(
        SEQUENCE, "Encodec", {"input_values": {"shape": [1, 1, 4800]}}, num_filters=8
    ),
    "hf_hubert": from_transformers(SEQUENCE, "Hubert", WAVE, **SMALL),
    "hf_patchtst": from_transformers(
        SEQUENCE,
        "PatchTST",
        {"past_values": {"shape": [1, 128, 4]}},
        num_input_channels=4,
        context_length=128,
        patch_length=16,
        patch_stride=16,
    ),
    "hf_wav2vec2": from_transformers(SEQUENCE, "Wav2Vec2", WAVE, **SMALL),
    "hf_whisper": from_transformers(
        SEQUENCE,
        "Whisper",
        {"input_features": {"shape": [1, 80, 200]}, "decoder_input_ids": tokens(512, 16)},
        vocab_size=512,
        max_source_positions=100,
        pad_token_id=0,
        **SEQ2SEQ,
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
