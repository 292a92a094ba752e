#!/bin/bash
# Packs the built daemons, the GPU tests and all they need into one archive that
# runs on another x86-64 Linux host with a GPU: nothing is installed there but
# NVIDIA's driver.
#
#   deploy/gpu_bundle.sh [--out=FILE.tar] [--bin=DIR] [--without_cublas]
#
# --out=FILE        default monsoon-gpu.tar.
# --bin=DIR         a bazel-bin folder with what is to be packed; default: built.
# --without_cublas  leaves out cuBLAS and nvrtc (700 MB); the host has them on its
#                   library path then.
# The host's driver must be as new as the toolkit of this build: 580 for CUDA 13, 525 for
# CUDA 12. For hosts with an older one build with a 12.x toolkit:
#   CUDA_HOME=/usr/local/cuda-12.9 deploy/gpu_bundle.sh
# The archive holds monsoon-gpu/: bin/ (programs that find their libraries),
# lib/, configs/, data/ (Fashion-MNIST), run_gpu_demo.sh and run_gpu_tests.sh.
# It runs with the host's C library, or with the packed one where the host's is
# older than this machine's.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

out=monsoon-gpu.tar
bin=""
cublas=1
for argument in "$@"; do
  case "$argument" in
    --out=?*) out="${argument#--out=}" ;;
    --bin=?*) bin="${argument#--bin=}" ;;
    --without_cublas) cublas=0 ;;
    -h | --help) sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' deploy/gpu_bundle.sh; exit 0 ;;
    *) echo "gpu_bundle.sh: unknown argument '$argument'; try --help" >&2; exit 2 ;;
  esac
done

daemons=(coordinator ps_server worker)
tests=(device_error_test device_test gpu_benchmark network_test)
if [[ -z "$bin" ]]; then
  cache="${MONSOON_BAZEL_CACHE:-$HOME/.cache/monsoon-bazel}"
  bazel --batch build --config=opt --disk_cache="$cache" --noshow_progress \
    "${daemons[@]/#///}" "${tests[@]/#///tests/gpu:}"
  bin="$(readlink -f bazel-bin)"
fi

work="$(mktemp -d "${TMPDIR:-/tmp}/monsoon_bundle.XXXXXX")"
trap 'rm -rf "$work"' EXIT
root="$work/monsoon-gpu"
mkdir -p "$root"/{bin,libexec,lib/glibc,configs,data}

for name in "${daemons[@]}"; do
  install -m 755 "$bin/$name/$name" "$root/libexec/$name"
done
for name in "${tests[@]}"; do
  # Without CUDA there is no benchmark.
  [[ ! -e "$bin/tests/gpu/$name" ]] || install -m 755 "$bin/tests/gpu/$name" "$root/libexec/$name"
done

# What the programs load. glibc's own parts go to a folder of their own: they
# fit each other only.
add_library() {
  case "$(basename "$1")" in
    ld-linux*.so.* | libc.so.* | libm.so.* | libdl.so.* | librt.so.* | libpthread.so.* | \
      libresolv.so.* | libutil.so.* | libanl.so.* | libnss_*.so.*)
      cp -nL "$1" "$root/lib/glibc/" ;;
    *) cp -nL "$1" "$root/lib/" ;;
  esac
}
missing="$(ldd "$root"/libexec/* | grep 'not found' | sort -u || true)"
if [[ -n "$missing" ]]; then
  echo "gpu_bundle.sh: a program lacks a library here already:" >&2
  echo "$missing" >&2
  exit 1
fi
while read -r library; do
  add_library "$library"
done < <(ldd "$root"/libexec/* | grep -oE '(=> )?/[^ ]+ \(' | grep -oE '/[^ ]+' | sort -u)

# cuBLASLt opens nvrtc by itself (it has the name libnvrtc.so.N and a class
# NvrtcCompilerLibrary, and PyPI's cuBLAS depends on nvrtc's package) for kernels that it
# compiles when they are asked for. The tests on an H100 passed without it; what another
# GPU or product asks for nobody has seen, so it is packed: 114 MB. nvrtc opens its
# builtins by name.
if [[ $cublas -eq 1 ]]; then
  # As third_party/cuda/cuda.bzl looks, so that it is the build's.
  for nvcc in ${CUDA_HOME:+"$CUDA_HOME/bin/nvcc"} "$(command -v nvcc || true)" \
    /usr/local/cuda/bin/nvcc; do
    [[ -z "$nvcc" || ! -x "$nvcc" ]] || break
  done
  cuda="$(dirname "$(dirname "$(readlink -f "$nvcc")")")"
  for pattern in 'libcublas\.so\.[0-9]+' 'libcublasLt\.so\.[0-9]+' 'libnvrtc\.so\.[0-9]+' \
    'libnvrtc-builtins\.so\.[0-9]+\.[0-9]+'; do
    found="$(find -L "$cuda"/lib*/ -maxdepth 1 -regextype posix-extended -regex ".*/$pattern" \
      2>/dev/null | sort | head -1 || true)"
    if [[ -z "$found" ]]; then
      echo "gpu_bundle.sh: no $pattern under $cuda; --without_cublas packs without it" >&2
      exit 1
    fi
    cp -L "$found" "$root/lib/"
  done
fi

# The loader is the host's unless its C library is older.
ldd --version | head -1 | grep -oE '[0-9]+\.[0-9]+$' >"$root/lib/glibc/version"
cat >"$root/bin/run" <<'RUN'
#!/bin/bash
# Runs the program of libexec/ that this is a link to, with the libraries of lib/.
# MONSOON_LOADER=host or packed decides on the C library.
here="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
name="$(basename "${BASH_SOURCE[0]}")"
packed="$(cat "$here/lib/glibc/version")"
host="$(ldd --version 2>/dev/null | head -1 | grep -oE '[0-9]+\.[0-9]+$')"
loader="${MONSOON_LOADER:-}"
if [[ -z "$loader" ]]; then
  loader=packed
  if [[ -n "$host" && "$(printf '%s\n%s\n' "$packed" "$host" | sort -V | tail -1)" == "$host" ]]; then
    loader=host
  fi
fi
if [[ "$loader" == host ]]; then
  export LD_LIBRARY_PATH="$here/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
  exec "$here/libexec/$name" "$@"
fi
# The driver's own libraries are the host's.
driver=/usr/lib/x86_64-linux-gnu:/usr/lib64:/usr/lib:/usr/local/nvidia/lib64:/usr/lib/wsl/lib
exec "$here/lib/glibc/ld-linux-x86-64.so.2" --argv0 "$here/libexec/$name" \
  --library-path "$here/lib/glibc:$here/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}:$driver" \
  "$here/libexec/$name" "$@"
RUN
chmod 755 "$root/bin/run"
for program in "$root"/libexec/*; do
  ln "$root/bin/run" "$root/bin/$(basename "$program")"
done
rm "$root/bin/run"

cp -r configs/. "$root/configs/"
rm -f "$root/configs/BUILD.bazel"
install -m 755 deploy/run_gpu_demo.sh deploy/run_gpu_tests.sh "$root/"
cp -L /usr/share/datasets/fashion-mnist/*.gz "$root/data/"
sed -i 's|/usr/share/datasets/fashion-mnist|../../data|' "$root"/configs/job/*.textproto

tar -C "$work" -cf "$out" monsoon-gpu
echo "written: $out ($(du -h "$out" | cut -f1)); on the GPU host:"
echo "  tar xf $(basename "$out") && cd monsoon-gpu && ./run_gpu_tests.sh && ./run_gpu_demo.sh"
