"""A job that trains in seconds, as text: one hidden layer, synthetic data."""


def tiny_job(units, more, activation="relu", examples=4000, classes=3, noise=3):
    """`more` are lines of the job file: its procedure, and what else it has."""
    return f"""
model {{
  name: "tiny"
  input_shape: 60
  layer {{ dense {{ units: {units} }} }}
  layer {{ {activation} {{}} }}
  layer {{ dense {{ units: {classes} }} }}
}}
train {{ synthetic {{
  examples: {examples} classes: {classes} seed: 1 center_seed: 9 noise: {noise}
}} }}
test {{ synthetic {{ examples: 300 classes: {classes} seed: 2 center_seed: 9 noise: {noise} }} }}
seed: 5
{more}"""
