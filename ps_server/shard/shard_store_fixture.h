// A shard whose job only stores: what its session writes under a number, and what becomes of it.
// For tests. Write `number` has number * 1000 + slot * 100 + stripe everywhere in a stripe's slot,
// so that whatever is read says of which write it is.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/xxh3.h"
#include "common/memory/aligned_floats.h"
#include "common/testing/status_matchers.h"
#include "gtest/gtest.h"
#include "proto/optimizer.pb.h"
#include "proto/parameter_server.pb.h"
#include "proto/tensor.pb.h"
#include "ps_server/shard/shard_fixture.h"

namespace monsoon {

inline constexpr uint32_t kSlots = 3;  // parameters, and Adam's two

class ShardStoreTest : public ShardTest {
 protected:
  ShardStoreTest() {
    request_.mutable_optimizer()->mutable_adam()->set_rate(0.5);
    request_.set_store_only(true);
  }

  static float ValueOf(uint64_t number, uint32_t slot, uint32_t stripe) {
    return static_cast<float>(number * 1000 + slot * 100 + stripe);
  }
  // Of the whole slice, one slot.
  static Vector SlotOf(uint64_t number, uint32_t slot) {
    Vector values;
    for (uint32_t stripe = 0; stripe < kStripes; ++stripe) {
      values.insert(values.end(), kStripe, ValueOf(number, slot, stripe));
    }
    return values;
  }
  static uint64_t ChecksumOf(uint64_t number, uint32_t slots = kSlots) {
    Xxh3 hash;
    for (uint32_t slot = 0; slot < slots; ++slot) {
      const Vector values = SlotOf(number, slot);
      hash.Add(std::as_bytes(std::span(values)));
    }
    return hash.Digest();
  }

  // Of the session, without records.
  WriteRequest RequestOf(uint64_t number) const {
    WriteRequest request;
    *request.mutable_session() = session_;
    request.set_layout_hash(request_.layout_hash());
    request.set_writer(number);
    return request;
  }
  absl::Status Send(const WriteRequest& request, std::span<const float> payload = {}) {
    const ByteChunk chunk = std::as_bytes(payload);
    ChunkCursor cursor({&chunk, 1});
    return shard_.Write(request, &cursor, &scratch_).status();
  }
  // Those stripes of a slot, to become `version`.
  absl::Status Write(uint64_t number, uint32_t slot, uint64_t version, uint32_t first = 0,
                     uint32_t end = kStripes) {
    WriteRequest request = RequestOf(number);
    request.set_slot(slot);
    request.set_set_version(true);
    for (uint32_t stripe = first; stripe < end; ++stripe) {
      FetchRecord* const record = request.add_record();
      record->set_stripe(stripe);
      record->set_length(kStripe * sizeof(float));
      record->set_version(version);
    }
    const Vector values = SlotOf(number, slot);
    return Send(request, std::span(values).subspan(first * kStripe, (end - first) * kStripe));
  }
  absl::Status WriteAll(uint64_t number, uint64_t version) {
    for (uint32_t slot = 0; slot < kSlots; ++slot) {
      if (const absl::Status written = Write(number, slot, version); !written.ok()) {
        return written;
      }
    }
    return absl::OkStatus();
  }
  absl::Status Seal(uint64_t number, uint64_t checksum) {
    WriteRequest request = RequestOf(number);
    request.mutable_seal()->set_checksum(checksum);
    return Send(request);
  }
  absl::Status Seal(uint64_t number) { return Seal(number, ChecksumOf(number)); }
  absl::Status Adopt(uint64_t number, uint64_t term = 0) {
    AdoptRequest request;
    request.set_job("job-1");
    request.set_term(term);
    request.set_write(number);
    return shard_.Adopt(request).status();
  }
  // Written, sealed and adopted.
  void Store(uint64_t number, uint64_t version) {
    ASSERT_OK(WriteAll(number, version));
    ASSERT_OK(Seal(number));
    ASSERT_OK(Adopt(number));
  }

  FetchRequest FetchOf(uint32_t slot) const {
    FetchRequest request;
    *request.mutable_session() = session_;
    request.set_layout_hash(request_.layout_hash());
    request.set_stripe_count(kStripes);
    request.set_slot(slot);
    return request;
  }
  struct Slot {
    Vector values;
    std::vector<uint64_t> versions;
  };
  // As a fetch by the session gives it.
  Slot Fetch(uint32_t slot, const std::string& job = "job-1") {
    FetchRequest request = FetchOf(slot);
    request.mutable_session()->set_job(job);
    EXPECT_OK(shard_.StartFetch(request));
    AlignedFloats out(kFloats);
    const auto copied = shard_.FindJob(job)->fetches()->CopyStripes(std::nullopt, 0, kStripes,
                                                                    nullptr, FLOAT32, &out, slot);
    EXPECT_OK(copied);
    Slot fetched{Vector(out.span().begin(), out.span().end()), {}};
    for (const FetchRecord& record : copied->records) {
      fetched.versions.push_back(record.version());
    }
    return fetched;
  }
  void ExpectIs(uint64_t number, uint64_t version, const std::string& job = "job-1") {
    for (uint32_t slot = 0; slot < kSlots; ++slot) {
      const Slot fetched = Fetch(slot, job);
      EXPECT_EQ(fetched.values, SlotOf(number, slot)) << slot;
      EXPECT_EQ(fetched.versions, std::vector<uint64_t>(kStripes, version)) << slot;
    }
  }
};

}  // namespace monsoon
