// StoredParameters: of a job whose shards only store what workers have (synchronous training): what
// the controllers tell of the shards, and ask before a generation is ordered.
//
// Not thread safe.
#pragma once

#include <string>

namespace monsoon {

class StoredParameters {
 public:
  virtual ~StoredParameters() = default;

  // Whether all shards have adopted the write that all had last.
  virtual void NoteStored(bool whole) = 0;
  // A shard has not got that write: it was started anew since.
  virtual void NoteWriteLost() = 0;

  // A generation that is ordered now would hold the parameters that it is meant to hold.
  virtual bool whole() const = 0;
  // Why nobody trains, though replicas are there; "": not for the shards.
  virtual std::string waits_for() const = 0;
};

}  // namespace monsoon
