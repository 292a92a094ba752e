// What messages show of the content of data files. A message of the user's own process quotes it.
// One that leaves a host for the coordinator, which shows it to whoever asks for the job, only says
// what kind of text stood at a place: the owner of a job may not be one who may read the file.
//
// What counts as content: fields, words, numbers and bytes of a file. What does not: paths, lines,
// places, sizes, types and shapes; names that the job itself has written; and, once the whole file
// has been read as what the job says it is, the names of its columns and classes, which its model
// needs.
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace monsoon {

enum class Quoting {
  kShow,      // the process is its user's own, who may read the file
  kDescribe,  // the message may travel to others
};

// `text` in quotes, escaped and not too long. For what is no content.
std::string Quoted(absl::string_view text);

// Quoted(text); else its kind and length: "a text of 17 letters".
std::string Content(absl::string_view text, Quoting quoting);

// `value` as printf's %.15g has it; else "a number".
std::string ContentNumber(double value, Quoting quoting);

}  // namespace monsoon
