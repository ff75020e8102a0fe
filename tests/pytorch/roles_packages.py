# SPDX-License-Identifier: Apache-2.0
"""The trainings of roles.py through packages that wrap PyTorch, one a scenario.

usage: roles_packages.py NAME ...     as roles.py; test_roles.py --packages makes the environment
Where a package is not there its scenario says so, and is left out.
"""
import importlib
import logging
import os
import time

import roles
import torch
from roles import BATCH, FLAT, HALF, INSIDE, LOSS, MLP, OUTSIDE, ROOT, STEPS, WIDE, X, Y
from roles import block, blocks, in_half, saved, scenario, train, trained
from torch import nn
from torch.nn import functional

roles.SCENARIOS.clear()
SCALAR = block(1)


def needed(name):
    try:
        return importlib.import_module(name)
    except ImportError as error:
        print(f"SKIPPED: {name} is not to be had: {error}", flush=True)
        os._exit(0)


def batches():
    data = torch.utils.data.TensorDataset(torch.randn(STEPS * BATCH, INSIDE), torch.randn(STEPS * BATCH, OUTSIDE))
    return torch.utils.data.DataLoader(data, batch_size=BATCH)


# ---- torch.compile ----

@scenario()
def compiled():
    needed("triton")
    return train(torch.compile(roles.mlp()), trained())


@scenario()
def compiled_weights():
    """Weights of the program's own, which compiled code saves under another shape."""
    needed("triton")
    weight = torch.randn(OUTSIDE, OUTSIDE, device="cuda", requires_grad=True)
    model = roles.mlp()
    before, after = trained(gradient=block(OUTSIDE * OUTSIDE), other=block(OUTSIDE * OUTSIDE) + LOSS + ROOT)
    before["activation"] += Y  # the input of the last product
    after["gradient"] += block(OUTSIDE * OUTSIDE)
    after["other"] += block(OUTSIDE * OUTSIDE)
    last = torch.compile(lambda x: x @ weight)
    return train(lambda x: last(model(x)), (before, after), optimizer=torch.optim.AdamW(model.parameters())), weight


# ---- Accelerate, Lightning ----

@scenario()
def accelerate():
    package = needed("accelerate")
    accelerator = package.Accelerator(mixed_precision="bf16")
    model = roles.mlp()
    model, optimizer, data = accelerator.prepare(model, torch.optim.AdamW(model.parameters()), batches())
    before, after = trained(**in_half(autocast=block(OUTSIDE * WIDE, HALF), other=X + LOSS + ROOT + SCALAR))
    for step, (x, y) in enumerate(data):
        loss = functional.mse_loss(model(x), y)
        if step == STEPS - 1:
            roles.say("before-backward", before, ROOT + SCALAR)  # the loss over the steps that are accumulated
        accelerator.backward(loss)
        if step == STEPS - 1:
            roles.say("after-step", after | {"other": X + Y + LOSS})
        optimizer.step()
        optimizer.zero_grad()
    return model, optimizer


@scenario()
def lightning():
    package = needed("lightning")
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    before, after = trained(**in_half(autocast=block(OUTSIDE * WIDE, HALF), other=X + ROOT + 2 * SCALAR))

    class Model(package.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = nn.Sequential(nn.Linear(INSIDE, WIDE), nn.GELU(), nn.Linear(WIDE, OUTSIDE))

        def training_step(self, batch, index):
            return functional.mse_loss(self.net(batch[0]), batch[1])

        def on_before_backward(self, loss):
            if self.global_step == STEPS - 1:
                roles.say("before-backward", before, ROOT)

        def on_after_backward(self):
            if self.global_step == STEPS - 1:
                # the batch, the loss and what is logged of it
                roles.say("after-step", after | {"other": X + Y + 2 * SCALAR})

        def configure_optimizers(self):
            return torch.optim.AdamW(self.parameters())
    model = Model()
    trainer = package.Trainer(max_epochs=1, accelerator="gpu", devices=1, precision="bf16-mixed", logger=False,
                              enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False)
    trainer.fit(model, batches())
    return model, trainer


# ---- DeepSpeed ----

BUCKET = 200_000


def deepspeed(stage, before, after):
    os.environ.update(LOCAL_RANK="0")
    package = needed("deepspeed")
    model = roles.mlp()
    model, optimizer, *_ = package.initialize(
        model=model, model_parameters=model.parameters(),
        config={"train_micro_batch_size_per_gpu": BATCH, "bf16": {"enabled": True},
                "optimizer": {"type": "AdamW", "params": {"lr": 1e-3, "torch_adam": True}},
                "zero_optimization": {"stage": stage, "reduce_bucket_size": BUCKET}})
    x, y = torch.randn(BATCH, INSIDE, device="cuda"), torch.randn(BATCH, OUTSIDE, device="cuda")
    for step in range(STEPS):
        loss = functional.mse_loss(model(x.bfloat16()).float(), y)
        if step == STEPS - 1:
            roles.say("before-backward", before, ROOT + 2 * SCALAR)
            optimizer.optimizer.register_step_post_hook(lambda *_: roles.say("after-step", after))
        model.backward(loss)
        model.step()
    for moment in roles.expected:
        moment["rules"] = True
    return model, optimizer


def of_deepspeed(**more):
    """Weights in two bytes and in four; the loss is scaled twice, and the norm of the last step is kept."""
    return {"parameter": block(FLAT, HALF) + block(FLAT), "optimizer": 2 * block(FLAT), "activation": saved(HALF) + Y,
            "input": block(BATCH * INSIDE, HALF) + Y, "other": X + LOSS + ROOT + 3 * SCALAR} | more


def after_deepspeed(scalars, **more):
    """Gradients as the step takes them: in four bytes."""
    return {"parameter": block(FLAT, HALF) + block(FLAT), "optimizer": 2 * block(FLAT), "gradient": block(FLAT),
            "other": X + Y + LOSS + scalars * SCALAR} | more


@scenario()
def deepspeed1():
    return deepspeed(1, of_deepspeed(), after_deepspeed(3))


@scenario()
def deepspeed2():
    return deepspeed(2, of_deepspeed(), after_deepspeed(3))


@scenario()
def deepspeed3():
    """The flat weights, gradients and the bucket are known by what holds them."""
    bucket = {"communication": block(BUCKET, HALF) + SCALAR}
    return deepspeed(3, of_deepspeed(gradient=block(FLAT, HALF), other=X + LOSS + ROOT + 4 * SCALAR, **bucket),
                     after_deepspeed(5, gradient=block(FLAT) + block(FLAT, HALF), **bucket))


# ---- bitsandbytes ----

def in_bytes(elements, every):
    """A quantised tensor and the scales of its blocks."""
    return block(elements, 1) + block(elements // every)


@scenario()
def adam8bit():
    """State of 4,096 elements or more in bytes, with two tables of 256."""
    package = needed("bitsandbytes")
    model = roles.mlp()
    state = 2 * sum(in_bytes(n, 256) if n >= 4096 else block(n) for n in MLP) + 2 * block(256)
    return train(model, trained(state=state), optimizer=package.optim.Adam8bit(model.parameters()))


@scenario()
def linear4bit():
    """Four bits an element, a scale of a byte for 64 and a table of 16; of the scales a scale for 256, a table and
    an offset. Only the second layer is trained."""
    package = needed("bitsandbytes")
    model = nn.Sequential(package.nn.Linear4bit(INSIDE, WIDE, compute_dtype=torch.float32), nn.GELU(),
                          nn.Linear(WIDE, OUTSIDE)).cuda()
    for parameter in model[0].parameters():
        parameter.requires_grad = False
    first = block(MLP[0] // 2, 1) + block(MLP[0] // 64, 1) + block(16) + block(MLP[0] // 64 // 256) + block(256) + \
        SCALAR + block(WIDE)
    table = block(256)  # what the package keeps for itself
    last = blocks(MLP[2:])
    # nothing below needs a gradient: kept are the input of the last layer and its output
    before, after = trained(first + last, 2 * last, activation=block(BATCH * WIDE) + Y, input=Y,
                            other=X + LOSS + ROOT + table)
    after["gradient"] = last
    after["other"] += table
    made = train(model, (before, after), optimizer=torch.optim.AdamW(model[2].parameters()))
    for moment in roles.expected:
        moment["rules"] = True
    return made


# ---- transformers ----

@scenario()
def generated():
    """The cache of a decoder: keys and values of each layer, under no name that says so."""
    package = needed("transformers")
    config = package.GPT2Config(n_layer=2, n_head=4, n_embd=64, vocab_size=128, n_positions=128, bos_token_id=0,
                                eos_token_id=0)
    model, cache = package.GPT2LMHeadModel(config).cuda().eval(), package.DynamicCache(config=config)
    words = torch.zeros(1, 16, dtype=torch.int64, device="cuda")
    with torch.no_grad():
        for _ in range(4):
            out = model(words, past_key_values=cache, use_cache=True).logits
            time.sleep(0.2)
        roles.ask("decoded", {"kv-cache": 2 * 2 * block(4 * 16 * 64), "other": block(16 * 128) + block(16, 8)})
    roles.expected[-1]["rules"] = True
    return model, cache, out


roles.PARTIAL = ("generated",)

if __name__ == "__main__":
    roles.main()
