#include "common/config/location_map.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace monsoon {

std::string ParentPath(const std::string& path) {
  const size_t end = path.find_last_of(".[");
  return end == std::string::npos ? "" : path.substr(0, end);
}

bool IsWithin(const std::string& path, const std::string& ancestor) {
  if (ancestor.empty()) {
    return true;
  }
  return absl::StartsWith(path, ancestor) &&
         (path.size() == ancestor.size() || path[ancestor.size()] == '.' ||
          path[ancestor.size()] == '[');
}

std::string JoinPath(const std::string& parent, const std::string& name) {
  return parent.empty() ? name : absl::StrCat(parent, ".", name);
}

void LocationMap::Replace(const std::string& path, Location location) {
  std::erase_if(places_, [&path](const auto& entry) { return IsWithin(entry.first, path); });
  places_[path] = std::move(location);
}

const Location* LocationMap::Find(const std::string& path) const {
  const auto it = places_.find(path);
  return it == places_.end() ? nullptr : &it->second;
}

Location LocationMap::Nearest(const std::string& path, const std::string& file) const {
  for (std::string at = path; !at.empty(); at = ParentPath(at)) {
    if (const Location* location = Find(at); location != nullptr) {
      return *location;
    }
  }
  return Location{file, file.empty() ? 0 : 1, file.empty() ? 0 : 1};
}

}  // namespace monsoon
