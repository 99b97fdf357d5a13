import CSodium

/// Initialises libsodium once per process, on the first thread that needs it.
enum Sodium {
  /// Initialises libsodium. Call this before drawing randomness or allocating secret memory.
  static func start() {
    precondition(started, "libsodium did not start: there is no source of randomness")
  }

  private static let started = sodium_init() >= 0
}

extension Collection<UInt8> {
  /// Passes the bytes to a C function as one contiguous buffer, with an address even if the count is 0.
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
  /// An array of `count` bytes. `body` must write every one of them; otherwise the array must not be used.
  init(count: Int, filledBy body: (UnsafeMutablePointer<UInt8>) -> Void) {
    self.init(unsafeUninitializedCapacity: count) { buffer, filled in
      if let address = buffer.baseAddress { body(address) }
      filled = count
    }
  }

  /// Overwrites the bytes of this array. Copies of the array are not changed.
  public mutating func wipe() {
    sodium_memzero(&self, count)
  }
}
