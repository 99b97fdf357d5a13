import Glibc

extension [UInt8] {
  /// Overwrites the array's secret content. Copies are not changed.
  mutating func wipe() {
    withUnsafeMutableBytes { bytes in
      if let address = bytes.baseAddress { explicit_bzero(address, bytes.count) }
    }
  }
}
