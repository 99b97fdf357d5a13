import CSodium

/// The start of libsodium, once in the life of the process, whichever thread comes first.
enum Sodium {
  /// Must be called before anything that draws randomness or allocates secret memory.
  static func start() {
    precondition(started, "libsodium did not start: there is no source of randomness")
  }

  private static let started = sodium_init() >= 0
}

extension Collection<UInt8> {
  /// Lends the bytes as C likes them: in one piece, and at an address even when there are none.
  func withPointer<Result>(_ body: (UnsafePointer<UInt8>, Int) -> Result) -> Result {
    let lent = withContiguousStorageIfAvailable { buffer in
      buffer.baseAddress.map { body($0, buffer.count) }
    }
    if let lent, let result = lent { return result }
    // An array has an address even when it is empty, and libsodium declares its parameters non-null.
    let copy = Array(self)
    return body(copy, copy.count)
  }
}

extension [UInt8] {
  /// An array of `count` bytes that `body` fills.
  init(count: Int, filledBy body: (UnsafeMutablePointer<UInt8>) -> Void) {
    self.init(repeating: 0, count: count)
    withUnsafeMutableBufferPointer { buffer in
      if let address = buffer.baseAddress { body(address) }
    }
  }

  /// Overwrites what was secret, as far as the array was not copied.
  mutating func wipe() {
    sodium_memzero(&self, count)
  }
}
