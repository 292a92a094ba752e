#!/usr/bin/python3
"""What the translation refuses, and how it says so; what it computes is tested by
tests/gpu/emulator/ptx_test.cc. Last line: `selftest: N passed, N failed`."""

import sys
import unittest

import cpp
import ptx

HEAD = """.version 8.0
.target sm_90
.visible .entry K(.param .u64 out, .param .align 8 .b8 more[24], .param .u8 last)
.maxntid 128, 2, 1
{
\t.reg .b32 %r<4>;
\t.reg .f32 %f<4>;
\t.reg .pred %p<2>;
"""
END = "\tret;\n}\n"
LINE = HEAD.count("\n") + 1  # of what a test writes


class TranslateTest(unittest.TestCase):
    def refused(self, statement, reason):
        with self.assertRaises(ptx.PtxError) as raised:
            cpp.translate([("k.ptx", HEAD + statement + "\n" + END)])
        text = str(raised.exception)
        self.assertIn(reason, text)
        self.assertIn("k.ptx:%d:" % LINE, text)

    def test_names_the_line_of_what_it_does_not_know(self):
        self.refused("\twmma.load.a.sync %r1, %r2;", "instruction")
        self.refused("\tatom.global.add.f32 %f1, [%r1], %f2;", "atomics")
        self.refused("\tadd.cc.u32 %r1, %r2, %r3;", "modifier .cc")
        self.refused("\tfma.rn.relu.f32 %f1, %f1, %f2, %f3;", "modifier .relu")
        self.refused("\tbar.sync 1, 64;", "barrier")
        self.refused("\tadd.u32 %r1, %r2, %x9;", "operand %x9")
        self.refused("\tmov.u32 %r1, %clock;", "operand %clock")
        self.refused("\tcall.uni f, ();", "instruction")

    def test_refuses_module_variables_and_functions(self):
        for text in (".global .align 4 .b8 table[16];\n", ".func f()\n{\n\tret;\n}\n"):
            with self.assertRaises(ptx.PtxError):
                ptx.read(text + HEAD + END, "k.ptx")

    def test_reads_parameters_as_the_host_packs_them(self):
        entry, = ptx.read(HEAD + END, "k.ptx")
        self.assertEqual([(p.offset, p.size) for p in entry.params], [(0, 8), (8, 24), (32, 1)])
        self.assertEqual((entry.param_bytes, entry.max_threads), (33, 256))

    def test_scopes_have_registers_of_their_own(self):
        entry, = ptx.read(HEAD + "{ .reg .f64 %r1; mov.f64 %r1, 0d0000000000000000; }\n" + END,
                          "k.ptx")
        self.assertEqual(entry.registers["%r1"], "b32")
        self.assertEqual(entry.registers[entry.body[0].operands[0]], "f64")

    def test_several_files_share_an_instantiation(self):
        text = cpp.translate([("a.ptx", HEAD + END), ("b.ptx", HEAD + END)])
        self.assertEqual(text.count("Wait Kernel"), 1)

    def test_dynamic_shared_memory_lies_behind_the_static(self):
        entry, = ptx.read(".extern .shared .align 16 .b8 dynamic[];\n" + HEAD +
                          "\t.shared .align 4 .b8 fixed[20];\n" + END, "k.ptx")
        self.assertEqual(entry.shared, {"fixed": 0, "dynamic": 32})


if __name__ == "__main__":
    result = unittest.TextTestRunner(stream=sys.stdout).run(
        unittest.TestLoader().loadTestsFromTestCase(TranslateTest))
    failed = len(result.failures) + len(result.errors)
    print("selftest: %d passed, %d failed" % (result.testsRun - failed, failed))
    sys.exit(1 if failed else 0)
