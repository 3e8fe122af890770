"""Text networks of transformers: two layers of 64 channels, 16 tokens."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..zoos import GENERATIVE, TEXT, Entry, from_transformers, tokens

_ENCODER = {
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 128,
}
_BOTH = {"input_ids": tokens(128, 16), "decoder_input_ids": tokens(128, 8)}
_PAIRED = {
    "d_model": 64,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 128,
    "decoder_ffn_dim": 128,
}
_T5 = {"d_model": 64, "num_layers": 2, "num_heads": 4, "d_ff": 128, "d_kv": 16}


def _encoder(name: str, model: str = "Model", length: int = 16, **settings: Any) -> Entry:
    inputs = {"input_ids": tokens(128, length)}
    return from_transformers(TEXT, name, inputs, model=model, **{"vocab_size": 128, **_ENCODER, **settings})


def _decoder(name: str, model: str = "ForCausalLM", **settings: Any) -> Entry:
    """A decoder of two layers; `settings` with None are left out."""
    given = {"vocab_size": 128, **_ENCODER, "num_key_value_heads": 2, "pad_token_id": 0, **settings}
    kept = {key: value for key, value in given.items() if value is not None}
    return from_transformers(GENERATIVE, name, {"input_ids": tokens(128, 16)}, model=model, **kept)


def _plain(name: str, model: str = "LMHeadModel", **settings: Any) -> Entry:
    """A decoder whose configuration has its own names."""
    inputs = {"input_ids": tokens(128, 16)}
    return from_transformers(GENERATIVE, name, inputs, model=model, vocab_size=128, **settings)


def _paired(name: str, model: str = "Model", **settings: Any) -> Entry:
    given = {"vocab_size": 128, "pad_token_id": 0, **_PAIRED, **settings}
    return from_transformers(GENERATIVE, name, _BOTH, model=model, **given)


_GPT = {"n_embd": 64, "n_layer": 2, "n_head": 4}
_EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32}

TEXTS: Mapping[str, Entry] = {
    "hf_big_bird": _encoder("BigBird", attention_type="original_full"),
    "hf_canine": _encoder("Canine", length=32, local_transformer_stride=8, downsampling_rate=4),
    "hf_deberta": _encoder("Deberta", relative_attention=True, pos_att_type=["p2c", "c2p"]),
    "hf_ernie": _encoder("Ernie"),
    "hf_esm": _encoder("Esm", pad_token_id=1, position_embedding_type="rotary"),
    "hf_funnel": from_transformers(
        TEXT,
        "Funnel",
        {"input_ids": tokens(128, 16)},
        vocab_size=128,
        d_model=64,
        n_head=4,
        d_head=16,
        d_inner=128,
        block_sizes=[1, 1],
        num_decoder_layers=1,
    ),
    "hf_ibert": _encoder("IBert"),
    "hf_layoutlm": _encoder("LayoutLM"),
    "hf_longformer": _encoder("Longformer", attention_window=8, pad_token_id=1),
    "hf_luke": _encoder("Luke", entity_vocab_size=32, entity_emb_size=32),
    "hf_megatron_bert": _encoder("MegatronBert"),
    "hf_modernbert": _encoder("ModernBert", pad_token_id=0, global_attn_every_n_layers=2),
    "hf_mpnet": _encoder("MPNet"),
    "hf_nystromformer": _encoder("Nystromformer", num_landmarks=4, segment_means_seq_len=16),
    "hf_rembert": _encoder("RemBert", input_embedding_size=32),
    "hf_roformer": _encoder("RoFormer", embedding_size=64),
    "hf_xlm": _encoder("XLM", emb_dim=64, n_layers=2, n_heads=4),
    "hf_xlm_roberta": _encoder("XLMRoberta"),
    "hf_bert_classification": _encoder("Bert", "ForSequenceClassification"),
    "hf_electra_answers": _encoder("Electra", "ForQuestionAnswering"),
    "hf_roberta_masked": _encoder("Roberta", "ForMaskedLM"),
    "hf_distilbert_tokens": _encoder(
        "DistilBert", "ForTokenClassification", dim=64, n_layers=2, n_heads=4, hidden_dim=128
    ),
    # Decoders
    "hf_biogpt": _plain(
        "BioGpt",
        "ForCausalLM",
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=128,
    ),
    "hf_codegen": _plain("CodeGen", "ForCausalLM", **_GPT, rotary_dim=8),
    "hf_cohere": _decoder("Cohere"),
    "hf_ctrl": _plain("CTRL", **_GPT, dff=128),
    "hf_falcon_mamba": _plain("FalconMamba", "ForCausalLM", hidden_size=32, num_hidden_layers=1),
    "hf_gemma2": _decoder("Gemma2", head_dim=16),
    "hf_gemma3": _decoder("Gemma3Text", "Model", head_dim=16),
    "hf_gpt_bigcode": _plain("GPTBigCode", "ForCausalLM", **_GPT),
    "hf_gpt_neo": _plain(
        "GPTNeo",
        "ForCausalLM",
        hidden_size=64,
        num_layers=2,
        num_heads=4,
        attention_types=[[["global", "local"], 1]],
        window_size=8,
    ),
    "hf_gptj": _plain("GPTJ", "ForCausalLM", **_GPT, rotary_dim=8),
    "hf_granite": _decoder("Granite"),
    "hf_granite_moe": _decoder("GraniteMoe", num_local_experts=4, num_experts_per_tok=2),
    "hf_helium": _decoder("Helium", head_dim=16),
    "hf_mamba2": _plain(
        "Mamba2",
        "ForCausalLM",
        hidden_size=32,
        num_hidden_layers=1,
        num_heads=8,
        head_dim=8,
        state_size=8,
        n_groups=1,
        chunk_size=8,
    ),
    "hf_mixtral": _decoder("Mixtral", num_local_experts=4),
    "hf_mpt": _plain("Mpt", "ForCausalLM", d_model=64, n_heads=4, n_layers=2),
    "hf_nemotron": _decoder("Nemotron"),
    "hf_olmo": _decoder("Olmo"),
    "hf_olmo2": _decoder("Olmo2"),
    "hf_olmoe": _decoder("Olmoe", num_experts=4, num_experts_per_tok=2),
    "hf_openai_gpt": _plain("OpenAIGPT", **_GPT),
    "hf_persimmon": _decoder("Persimmon", num_key_value_heads=None),
    "hf_phi3": _decoder("Phi3"),
    "hf_qwen2_moe": _decoder("Qwen2Moe", **_EXPERTS, shared_expert_intermediate_size=32),
    "hf_qwen3": _decoder("Qwen3", head_dim=16),
    "hf_qwen3_moe": _decoder("Qwen3Moe", head_dim=16, **_EXPERTS),
    "hf_recurrent_gemma": _decoder("RecurrentGemma", lru_width=64, attention_window_size=8),
    "hf_rwkv": _plain("Rwkv", "ForCausalLM", hidden_size=32, num_hidden_layers=2, context_length=16),
    "hf_smollm3": _decoder("SmolLM3"),
    "hf_stablelm": _decoder("StableLm"),
    "hf_starcoder2": _decoder("Starcoder2"),
    "hf_xglm": _plain("XGLM", "ForCausalLM", d_model=64, num_layers=2, attention_heads=4, ffn_dim=128),
    # Encoders and decoders
    "hf_blenderbot": _paired("Blenderbot"),
    "hf_led": _paired("LED", attention_window=8),
    "hf_m2m_100": _paired("M2M100"),
    "hf_marian": _paired("Marian", decoder_start_token_id=1),
    "hf_mbart": _paired("MBart"),
    "hf_pegasus": _paired("Pegasus"),
    "hf_prophetnet": from_transformers(
        GENERATIVE,
        "ProphetNet",
        _BOTH,
        vocab_size=128,
        hidden_size=64,
        num_encoder_layers=2,
        num_decoder_layers=2,
        num_encoder_attention_heads=4,
        num_decoder_attention_heads=4,
        encoder_ffn_dim=128,
        decoder_ffn_dim=128,
    ),
    "hf_longt5": from_transformers(GENERATIVE, "LongT5", _BOTH, vocab_size=128, **_T5, local_radius=4),
    "hf_mt5": from_transformers(GENERATIVE, "MT5", _BOTH, vocab_size=128, **_T5),
    "hf_switch": from_transformers(
        GENERATIVE, "SwitchTransformers", _BOTH, vocab_size=128, **_T5, num_experts=4
    ),
    "hf_umt5": from_transformers(GENERATIVE, "UMT5", _BOTH, vocab_size=128, **_T5),
}
