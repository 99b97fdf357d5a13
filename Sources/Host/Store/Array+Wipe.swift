import Glibc

extension [UInt8] {
  /// Overwrites what was secret, as far as the array was not copied.
  mutating func wipe() {
    withUnsafeMutableBytes { bytes in
      if let address = bytes.baseAddress { explicit_bzero(address, bytes.count) }
    }
  }
}
