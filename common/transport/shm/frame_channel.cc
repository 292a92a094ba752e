#include "common/transport/shm/frame_channel.h"

#include <span>

namespace monsoon {
namespace {

ChannelMemory* Header(std::byte* memory) { return reinterpret_cast<ChannelMemory*>(memory); }

RingWriter MakeWriter(FrameChannel::Side side, std::byte* memory, Bell* client_bell) {
  std::byte* rings = memory + FrameChannel::kRingsOffset;
  return side == FrameChannel::Side::kClient
             ? RingWriter(&Header(memory)->requests, {rings, kRingBytes},
                          &Header(memory)->server_bell)
             : RingWriter(&Header(memory)->answers, {rings + kRingBytes, kRingBytes}, client_bell);
}

RingReader MakeReader(FrameChannel::Side side, std::byte* memory, Bell* client_bell) {
  std::byte* rings = memory + FrameChannel::kRingsOffset;
  return side == FrameChannel::Side::kServer
             ? RingReader(&Header(memory)->requests, {rings, kRingBytes}, client_bell)
             : RingReader(&Header(memory)->answers, {rings + kRingBytes, kRingBytes},
                          &Header(memory)->server_bell);
}

}  // namespace

FrameChannel::FrameChannel(Side side, std::byte* memory, Bell* client_bell)
    : sender_(MakeWriter(side, memory, client_bell)),
      receiver_(MakeReader(side, memory, client_bell)) {}

Bell* FrameChannel::server_bell(std::byte* memory) { return &Header(memory)->server_bell; }

}  // namespace monsoon
