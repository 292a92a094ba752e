// LocalVectorSpace: a VectorSpace of arrays in this process. The reference for
// what the operations mean, and what the driver's tests run on.
//
// Elements are doubles, each rounded to the chosen precision when it is stored.
// Not thread safe; nothing blocks.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "coordinator/lbfgs/vector_space.h"

namespace monsoon {

class LocalVectorSpace : public VectorSpace {
 public:
  enum class Precision { kFloat32, kDouble };

  // The parameters ("" to Copy) are zero at first.
  LocalVectorSpace(size_t size, Precision precision)
      : precision_(precision), parameters_(size, 0.0) {}

  double unit_roundoff() const override {
    return precision_ == Precision::kFloat32 ? 0x1p-24 : 0x1p-53;
  }
  size_t size() const { return parameters_.size(); }

  // Access to the elements: what a local objective uses, outside the operations.
  // InvalidArgument when the length is wrong.
  absl::Status Write(const std::string& name, std::span<const double> values);
  // Valid until the vector is freed.
  absl::StatusOr<std::span<const double>> Read(const std::string& name) const;
  const std::vector<double>& parameters() const { return parameters_; }

  // The largest number of vectors that lived at once, without the parameters.
  size_t peak_vectors() const { return peak_vectors_; }
  size_t live_vectors() const { return vectors_.size(); }

 protected:
  absl::StatusOr<std::vector<double>> Execute(VectorRequest request) override;

 private:
  absl::StatusOr<std::vector<double>> Dispatch(const VectorRequest& request);
  absl::Status DoSelect(const VectorSelect& op);
  absl::Status DoCopy(const VectorCopy& op);
  absl::Status DoUniform(const VectorUniform& op);
  absl::StatusOr<std::vector<double>> DoCombine(const VectorCombine& op);
  absl::StatusOr<std::vector<double>> DoGram(const VectorGram& op);
  absl::Status DoPublish(const VectorPublish& op);

  absl::Status Store(const std::string& out, std::vector<double> values);
  // Stores element(x_i, y_i) as `out`.
  template <typename Element>
  absl::Status Map(const std::string& out, const std::string& x, const std::string& y,
                   Element element);

  Precision precision_;
  std::vector<double> parameters_;
  std::map<std::string, std::vector<double>> vectors_;
  size_t peak_vectors_ = 0;
};

}  // namespace monsoon
