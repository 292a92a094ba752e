// Where the fields of a configuration stand: field path -> place in a file.
#pragma once

#include <map>
#include <string>

namespace monsoon {

struct Location {
  std::string file;
  int line = 0;  // from 1; 0: no line, as in an override
  int column = 0;
};

// "downpour.optimizer.sgd" of "downpour.optimizer.sgd.rate"; "layer" of
// "layer[2]"; "" of a top-level field.
std::string ParentPath(const std::string& path);

// Whether `path` is `ancestor` or lies in it ("ps[1].address" in "ps[1]" and
// in "ps").
bool IsWithin(const std::string& path, const std::string& ancestor);

// "a.b", or "b" when `parent` is empty.
std::string JoinPath(const std::string& parent, const std::string& name);

// Not thread-safe.
class LocationMap {
 public:
  // The first location of a path stays.
  void Add(const std::string& path, Location location) {
    places_.try_emplace(path, std::move(location));
  }

  // Forgets everything within `path` and puts `location` there: an override
  // has replaced it.
  void Replace(const std::string& path, Location location);

  // Null when the field is not set.
  const Location* Find(const std::string& path) const;

  // The field's location, or that of the nearest message around it that has
  // one, or the start of `file`.
  Location Nearest(const std::string& path, const std::string& file) const;

 private:
  std::map<std::string, Location> places_;
};

}  // namespace monsoon
