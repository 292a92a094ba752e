#!/usr/bin/python3
"""The parts of deploy/wheel, on a small program that is linked here."""

import base64
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
import zipfile

from deploy.wheel import build, contents, licenses, linked

SOURCE = "#include <zlib.h>\nint main() { return crc32(0, 0, 0) != 0; }\n"


class SmallBuild:
    """A bazel-bin with one program, linked with zlib's archive as Bazel would."""

    def __init__(self, folder):
        self.root = pathlib.Path(folder).resolve()
        self.bin = self.root / "bazel-out/k8/bin"
        self.program = self.bin / "p/program"
        self.program.parent.mkdir(parents=True)
        (self.root / "main.c").write_text(SOURCE)
        self.run("gcc", "-c", "main.c", "-MD", "-MF", "bazel-out/k8/bin/p/main.d", "-o",
                 "bazel-out/k8/bin/p/main.o")
        self.params = pathlib.Path(str(self.program) + "-2.params")
        linker = "-fuse-ld=gold\n" if shutil.which("ld.gold") else ""  # as Bazel chooses
        self.params.write_text(f"-o\nbazel-out/k8/bin/p/program\n{linker}"
                               "bazel-out/k8/bin/p/main.o\n-l:libz.a\n")
        self.run("gcc", f"@{self.params}")

    def run(self, *command):
        subprocess.run(command, cwd=self.root, check=True)


class Linked(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.build = SmallBuild(folder.name)

    def evidence(self):
        return linked.evidence(str(self.build.program), str(self.build.bin))

    def test_archives_and_start_files_are_found(self):
        mapped = linked.mapped_files(linked.link_map(str(self.build.program),
                                                     str(self.build.bin)))
        names = {os.path.basename(path) for path in mapped}
        self.assertIn("libz.a", names)
        self.assertIn("Scrt1.o", names)
        self.assertNotIn("main.o", names)

    def test_packages_are_found(self):
        found = self.evidence()
        self.assertIn("zlib1g-dev", found)
        self.assertIn("libz.a(crc32.o)", found["zlib1g-dev"])
        self.assertIn("libc6-dev", found)
        self.assertNotIn("libsqlite3-dev", found)

    def test_a_header_alone_counts(self):
        (self.build.root / "main.c").write_text(SOURCE + "#include <xxhash.h>\n")
        self.build.run("gcc", "-c", "main.c", "-MD", "-MF", "bazel-out/k8/bin/p/main.d", "-o",
                       "bazel-out/k8/bin/p/main.o")
        self.build.run("gcc", f"@{self.build.params}")
        self.assertIn("xxhash.h in main.c", self.evidence()["libxxhash-dev"])

    def test_an_archive_that_gives_nothing_does_not_count(self):
        self.build.params.write_text(self.build.params.read_text() + "-l:libsqlite3.a\n")
        self.assertNotIn("libsqlite3-dev", self.evidence())

    def test_another_program_is_refused(self):
        with open(self.build.program, "ab") as f:
            f.write(b"x")
        with self.assertRaisesRegex(linked.NotAsBuilt, "is another one"):
            self.evidence()

    def test_missing_files_are_named(self):
        os.remove(self.build.bin / "p/main.d")
        with self.assertRaisesRegex(linked.NotAsBuilt, "main.d: No such file"):
            self.evidence()
        os.remove(self.build.params)
        with self.assertRaisesRegex(linked.NotAsBuilt, "program-2.params: No such file"):
            self.evidence()

    def test_what_is_of_no_package_is_refused(self):
        (self.build.root / "own.h").write_text("")
        rule = self.build.bin / "p/main.d"
        rule.write_text(rule.read_text().rstrip() + f" {self.build.root}/own.h\n")
        with self.assertRaisesRegex(linked.NotAsBuilt, "own.h .* of no Debian package"):
            self.evidence()

    def test_needed(self):
        self.assertEqual(linked.needed(str(self.build.program)), ["libc.so.6"])


class Licenses(unittest.TestCase):
    FOUND = {"libfoo-12-dev": ("program", "libfoo.a(foo.o)")}

    def test_the_list_must_fit(self):
        self.assertEqual(licenses.differences("w", ["libfoo-*-dev"], self.FOUND), [])
        self.assertIn("libfoo-12-dev is in program (libfoo.a(foo.o))",
                      licenses.differences("w", [], self.FOUND)[0])
        self.assertIn("libbar is listed",
                      licenses.differences("w", ["libfoo-12-dev", "libbar"], self.FOUND)[0])

    def test_each_wheel_has_a_list(self):
        self.assertEqual(set(licenses.read_list()), {wheel.name for wheel in contents.WHEELS})

    def test_texts_named_by_their_path_come_along(self):
        with tempfile.TemporaryDirectory() as root:
            for path, text in {
                    "usr/share/doc/libfoo/copyright":
                        "see /usr/share/common-licenses/GPL-2. Or /usr/share/common-licenses/LGPL",
                    "usr/share/common-licenses/GPL-2": "gpl",
                    "usr/share/common-licenses/LGPL": "lgpl"}.items():
                file = pathlib.Path(root) / path
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text)
            found = licenses.texts(["libfoo"], root)
            self.assertEqual(sorted(found), ["common-licenses/GPL-2.txt",
                                             "common-licenses/LGPL.txt", "libfoo.txt"])
            self.assertEqual(found["common-licenses/GPL-2.txt"], b"gpl")
            with self.assertRaisesRegex(OSError, "libbar"):
                licenses.texts(["libbar"], root)


class Archive(unittest.TestCase):
    def test_order_time_and_mode(self):
        with tempfile.TemporaryDirectory() as folder:
            files = {"w.dist-info/RECORD": (build.FILE_MODE, b"r"),
                     "z/program": (build.PROGRAM_MODE, b"p" * 1000),
                     "a.py": (build.FILE_MODE, b"a")}
            one, two = os.path.join(folder, "one"), os.path.join(folder, "two")
            build.write_zip(one, files, 1700000000)
            build.write_zip(two, dict(reversed(list(files.items()))), 1700000000)
            self.assertEqual(build.read(one), build.read(two))
            with zipfile.ZipFile(one) as archive:
                entries = archive.infolist()
                self.assertEqual([entry.filename for entry in entries],
                                 ["a.py", "z/program", "w.dist-info/RECORD"])
                self.assertEqual(entries[1].external_attr >> 16, 0o100755)
                self.assertEqual(entries[0].date_time, (2023, 11, 14, 22, 13, 20))

    def test_record(self):
        digest = base64.urlsafe_b64encode(hashlib.sha256(b"abc").digest()).decode().rstrip("=")
        self.assertEqual(build.record({"a.py": (0, b"abc")}, "w.dist-info").decode(),
                         f"a.py,sha256={digest},3\nw.dist-info/RECORD,,\n")

    def test_the_package_has_the_programs_version(self):
        with tempfile.TemporaryDirectory() as folder:
            with self.assertRaisesRegex(build.Refused, "missing"):
                build.check_package_version(folder, "1.2.3")
            path = pathlib.Path(folder) / "_version.py"
            path.write_text('__version__ = "1.2.2"\n')
            with self.assertRaisesRegex(build.Refused, "1.2.2, and common/base/version.h says"):
                build.check_package_version(folder, "1.2.3")
            path.write_text('"""Doc."""\n\n__version__ = "1.2.3"\n')
            build.check_package_version(folder, "1.2.3")

    def test_a_library_that_nobody_carries_is_refused(self):
        library = build.library_path("libm.so.6")
        build.check_needed(library, [], contents.SYSTEM_LIBRARIES)
        with self.assertRaisesRegex(build.Refused, "libm.so.6 needs libc.so.6"):
            build.check_needed(library, [], ["ld-linux-x86-64.so.2"])


if __name__ == "__main__":
    result = unittest.main(exit=False).result
    failed = len(result.failures) + len(result.errors)
    print(f"selftest: {result.testsRun - failed} passed, {failed} failed")
    sys.exit(1 if failed else 0)
