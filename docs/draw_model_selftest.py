#!/usr/bin/python3
"""draw_model.py on models that are none: a line that says why, and exit code 2."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).absolute().parent / "draw_model.py"
WIDE = "input_shape: 4 "


class DrawModel(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def draw(self, content):
        """(exit code, standard error) of the model m.textproto, by its path from there."""
        if content is not None:
            (self.folder / "m.textproto").write_bytes(content)
        ran = subprocess.run([sys.executable, SCRIPT, "--out=.", "m.textproto"], cwd=self.folder,
                             capture_output=True, text=True, timeout=100, check=False)
        return ran.returncode, ran.stderr

    def test_a_model_is_drawn(self):
        model = 'name: "m" input_shape: [0x1E, 010] layer { flatten {} } layer { dense { units: 2 } }'
        self.assertEqual(self.draw(model.encode()), (0, ""))
        picture = (self.folder / "m.svg").read_text(encoding="utf-8")
        self.assertIn("30 x 8", picture)
        self.assertIn("482 parameters", picture)

    def test_what_is_no_model_is_refused_in_a_line(self):
        for content, why in (
                (None, "No such file or directory"),
                (b"", "there is no input_shape, of numbers of at least 1"),
                (b"\xff", "'utf-8' codec can't decode byte 0xff in position 0: invalid start byte"),
                (WIDE, "there is no layer"),
                ("layer {", "protobuf text: '{' without '}'"),
                (WIDE + "layer", "protobuf text: it ends within a field"),
                (WIDE + "layer { dense { units: } }",
                 "protobuf text: a value, not '}', belongs here"),
                ("input_shape: 0x1G layer { relu {} }",
                 "there is no input_shape, of numbers of at least 1"),
                (WIDE + "layer: 3", "layer[0] is no layer { ... }"),
                (WIDE + "layer {}", "layer[0] has nothing for its kind"),
                (WIDE + "layer { dens { units: 3 } }", "layer[0] has dens for its kind"),
                (WIDE + 'layer { relu {} } layer { input: "no" relu {} }',
                 "layer[1] has the input no, which is no layer before it"),
                (WIDE + "layer { dense {} }", "layer[0] does not fit an input of [4]"),
                (WIDE + "layer { max_pool2d {} }", "layer[0] does not fit an input of [4]"),
                (WIDE + "layer { lstm { units: 2 } }", "layer[0] does not fit an input of [4]"),
                (WIDE + "layer { relu {} } loss: NONE", "NONE is no loss")):
            content = content.encode() if isinstance(content, str) else content
            self.assertEqual(self.draw(content), (2, f"draw_model.py: m.textproto: {why}\n"))
            self.assertFalse((self.folder / "m.svg").exists())


if __name__ == "__main__":
    unittest.main()
