// A place in a list of tokens.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "common/config/text_tokens.h"

namespace monsoon {

// The list ends with TYPE_END, where the cursor stays. References to tokens
// live as long as the cursor.
class TokenCursor {
 public:
  explicit TokenCursor(std::vector<TextToken> tokens) : tokens_(std::move(tokens)) {}

  const TextToken& Peek(size_t ahead = 0) const {
    return tokens_[std::min(next_ + ahead, tokens_.size() - 1)];
  }
  const TextToken& Take() {
    const TextToken& token = Peek();
    next_ = std::min(next_ + 1, tokens_.size() - 1);
    return token;
  }
  bool TryTake(char symbol) {
    if (!Peek().IsSymbol(symbol)) {
      return false;
    }
    Take();
    return true;
  }
  bool AtEnd() const { return Peek().type == google::protobuf::io::Tokenizer::TYPE_END; }
  bool AtOpener() const { return Peek().IsSymbol('{') || Peek().IsSymbol('<'); }
  bool AtCloser() const { return Peek().IsSymbol('}') || Peek().IsSymbol('>'); }

 private:
  std::vector<TextToken> tokens_;
  size_t next_ = 0;
};

}  // namespace monsoon
