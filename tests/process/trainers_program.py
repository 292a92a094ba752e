"""One program of a trainer, for trainers.py: trains on a job by Lightning, by Hugging Face's Trainer
(with peft, too), by a loop with accelerate, or by the lines of docs/python.md that import a package
(KIND printed:PACKAGE), and writes what it saw to OUT, as JSON.

    trainers_program.py ADDRESS JOB KIND OUT [SETTINGS]

SETTINGS: JSON with `every`, `ddp` (it is one of two processes of a trainer), `wait_at` (after this step of its optimizer it waits for a line),
`plain` (trains once more without a job, on the same batches, and compares) and `more`, a Python
expression of further settings for the callback.
"""

import json
import os
import pathlib
import re
import sys
import tempfile

import torch
from torch.utils.data import DataLoader, Dataset

import monsoon as ms

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLES, BATCH, ACCUMULATE, EPOCHS = 250, 4, 4, 3
RATE, WORDS, LENGTH = 0.02, 30, 8


class Steps:
    """The learning rate of each step of the optimizer. One of a job tells of it, and waits where it
    is to."""

    wait_at = 0

    def __init__(self, tells):
        self.rates, self._tells = [], tells

    def add(self, rate):
        self.rates.append(rate)
        if self._tells:
            print(f"step {len(self.rates)}", flush=True)
            if len(self.rates) == self.wait_at:
                sys.stdin.readline()


class Numbers(Dataset):
    """Regression; remembers which batches were asked for."""

    def __init__(self):
        random = torch.Generator().manual_seed(1)
        self.x = torch.randn(EXAMPLES, 6, generator=random)
        self.y = self.x @ torch.arange(6.0) + 1
        self.words = torch.randint(WORDS, (EXAMPLES, LENGTH), generator=random)
        self.batches = []

    def __len__(self):
        return EXAMPLES

    def item(self, i):
        return self.x[i], self.y[i]

    def __getitems__(self, ids):
        self.batches.append([int(i) for i in ids])
        return [self.item(i) for i in self.batches[-1]]


class Words(Numbers):
    def item(self, i):
        return {"input_ids": self.words[i], "labels": self.words[i]}


class Classes(Numbers):
    def item(self, i):
        return self.x[i], self.x[i].argmax() % 3


class Again:
    """A batch_sampler that gives the batches of before, an epoch after another."""

    def __init__(self, batches):
        self.batches, self.passes = batches, 0
        self.length = -(-EXAMPLES // BATCH)

    def __len__(self):
        return self.length

    def __iter__(self):
        begin = self.passes * self.length
        self.passes += 1
        return iter(self.batches[begin:begin + self.length])


def line_model():
    torch.manual_seed(2)
    return torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))


def language_model(with_peft):
    from transformers import GPT2Config, GPT2LMHeadModel
    torch.manual_seed(2)
    model = GPT2LMHeadModel(GPT2Config(vocab_size=WORDS, n_positions=LENGTH, n_embd=8, n_layer=1,
                                       n_head=1, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0))
    if not with_peft:
        return model
    from peft import LoraConfig, get_peft_model
    return get_peft_model(model, LoraConfig(r=2, target_modules=["c_attn"], lora_dropout=0.0,
                                            fan_in_fan_out=True))


# ---- one function for each kind: trains, and returns the model and the rate of each step -----------


def line_module(loss_of, net, add_step):
    import lightning.pytorch as pl

    class Module(pl.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = net

        def training_step(self, batch, _):
            return loss_of(batch, self.net)

        def on_before_optimizer_step(self, optimizer):
            add_step(optimizer.param_groups[0]["lr"])

        def configure_optimizers(self):
            optimizer = torch.optim.AdamW(self.parameters(), lr=RATE)
            schedule = torch.optim.lr_scheduler.OneCycleLR(
                optimizer, RATE, total_steps=self.trainer.estimated_stepping_batches)
            return [optimizer], [{"scheduler": schedule, "interval": "step"}]

    return Module()


def by_lightning(callback, data, again=None, ddp=False):
    import lightning.pytorch as pl
    steps = Steps(callback)

    module = line_module(lambda batch, net: torch.nn.functional.mse_loss(
        net(batch[0])[:, 0], batch[1]), line_model(), steps.add)
    loader = DataLoader(data, batch_sampler=callback.sampler if callback else again)
    more = dict(devices=2, strategy="ddp") if ddp else {}
    pl.Trainer(**more, max_epochs=EPOCHS, accumulate_grad_batches=ACCUMULATE, accelerator="cpu",
               callbacks=[callback] if callback else [], use_distributed_sampler=False,
               logger=False, enable_checkpointing=False, enable_progress_bar=False,
               enable_model_summary=False).fit(module, loader)
    return module, steps.rates


def by_huggingface(callback, data, again=None, with_peft=False, ddp=False):
    from transformers import Trainer, TrainerCallback, TrainingArguments, default_data_collator
    from monsoon.huggingface import MonsoonTrainer
    steps = Steps(callback)

    class Rates(TrainerCallback):
        def on_pre_optimizer_step(self, args, state, control, optimizer=None, **_):
            steps.add(optimizer.param_groups[0]["lr"])

    class Plain(Trainer):
        def get_train_dataloader(self):
            return DataLoader(data, batch_sampler=again, collate_fn=self.data_collator)

    model = language_model(with_peft)
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            folder, num_train_epochs=EPOCHS, per_device_train_batch_size=BATCH, use_cpu=True,
            gradient_accumulation_steps=ACCUMULATE, learning_rate=RATE, report_to=[],
            lr_scheduler_type="cosine", warmup_steps=5, logging_steps=5, save_strategy="no",
            disable_tqdm=True, ddp_backend="gloo" if ddp else None)
        (MonsoonTrainer if callback else Plain)(
            model, arguments, train_dataset=data, data_collator=default_data_collator,
            callbacks=[Rates(), *([callback] if callback else [])]).train()
    return model, steps.rates


def by_accelerate(job, data, again=None):
    """`job`: a function that makes it of a model and an optimizer; None: without one."""
    from accelerate import Accelerator
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=ACCUMULATE)
    model = line_model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE)
    model, optimizer = accelerator.prepare(model, optimizer)
    groups = -(-EXAMPLES // (BATCH * ACCUMULATE))
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, RATE, total_steps=EPOCHS * groups)
    steps = Steps(job)

    def train(loader, schedule, count):
        for x, y in loader:
            with accelerator.accumulate(model):
                loss = torch.nn.functional.mse_loss(model(x)[:, 0], y)
                accelerator.backward(loss)
                rate = optimizer.param_groups[0]["lr"]
                optimizer.step()
                optimizer.zero_grad()
            if accelerator.sync_gradients:
                steps.add(rate)
                count(loss)
                schedule.step()

    if job is None:
        loader = accelerator.prepare(DataLoader(data, batch_sampler=again))
        for _ in range(EPOCHS):
            train(loader, schedule, lambda loss: None)
        return model, steps.rates
    job = job(model, optimizer)
    loader = accelerator.prepare(DataLoader(data, batch_sampler=job.sampler()))
    with job:
        schedule = job.following(schedule, accumulate=ACCUMULATE)
        for _ in job.epochs():
            train(loader, schedule, lambda loss: job.step(loss, optimizer_stepped=True))
    return model, steps.rates


def printed(address, package):
    """The lines of docs/python.md that import `package`, as they are printed but for the address."""
    page = (ROOT / "docs/python.md").read_text()
    lines, = [block for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL)
              if re.search(rf"^from {package}\b", block, re.MULTILINE)]
    lines = lines.replace("127.0.0.1:2221", address).replace('"gpt"', f'"printed-{package[-4:]}"')
    functional, data = torch.nn.functional, Classes()
    names = dict(torch=torch, F=functional, DataLoader=DataLoader, ms=ms, data=data,
                 model=torch.nn.Linear(6, 3))
    if package == "transformers":
        names.update(data=Words(), model=language_model(False))
    if package == "lightning.pytorch":
        names["module"] = line_module(lambda batch, net: functional.cross_entropy(
            net(batch[0]), batch[1]), torch.nn.Linear(6, 3), lambda rate: None)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        exec(compile(lines, "docs/python.md", "exec"), names)
        job = names["job"] if "job" in names else names["monsoon"].job
        return {"ended": job.ended, "examples": ms.Client(address).describe(job.id)["progress"][
            "examples"]}


def weights(model):
    return {key: value.detach() for key, value in model.named_parameters()}


def main(address, name, kind, out, settings="{}"):
    torch.set_num_threads(1)
    told = (printed(address, kind.partition(":")[2]) if kind.startswith("printed:") else
            trained(address, name, kind, json.loads(settings)))
    if os.environ.get("LOCAL_RANK", "0") == "0":
        with open(out, "w") as file:
            json.dump(told, file)


def trained(address, name, kind, settings):
    more = eval(settings.get("more", "{}"), {"ms": ms, "dist": torch.distributed})
    Steps.wait_at = settings.get("wait_at", 0)
    every = settings.get("every", 5)
    words = kind in ("huggingface", "peft")
    data = (Words if words else Numbers)()
    train = {"lightning": by_lightning, "huggingface": by_huggingface, "accelerate": by_accelerate,
             "peft": lambda *a, **b: by_huggingface(*a, with_peft=True, **b)}[kind]
    if kind == "accelerate":
        job = None

        def made(model, optimizer):
            nonlocal job
            local = {key: more.pop(key) for key in ("outer", "rounds", "fragments", "dynamic")
                     if key in more}
            job = ms.join(address, job=name, model=model, data=data, batch=BATCH, epochs=EPOCHS,
                          optimizer=ms.Local(optimizer, every=every, **local), **more)
            return job
        model, rates = train(made, data)
    else:
        if words:
            from monsoon.huggingface import MonsoonCallback
            callback = MonsoonCallback(address, job=name, every=every, **more)
        else:
            from monsoon.lightning import MonsoonCallback
            callback = MonsoonCallback(address, job=name, data=data, batch=BATCH, every=every,
                                       **more)
        model, rates = train(callback, data, ddp=settings.get("ddp", False))
        job = callback.job
    told = {"ended": job.ended, "rates": rates, "batches": len(data.batches)}
    arrays = ms.Client(address).load(job.id)
    mine = weights(model)
    told["differs"] = max(float((mine[key] - torch.from_numpy(array)).abs().max())
                          for key, array in arrays.items())
    told["tensors"] = len(arrays)
    if settings.get("plain"):
        twin, plain_rates = train(None, type(data)(), again=Again(data.batches))
        told["plain_rates"] = plain_rates
        told["plain_differs"] = max(float((mine[key] - value).abs().max())
                                    for key, value in weights(twin).items())
    return told


if __name__ == "__main__":
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    main(*sys.argv[1:])
