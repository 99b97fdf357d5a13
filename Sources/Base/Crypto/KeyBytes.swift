/// The 32 bytes of a public key, stored inline. A node stores thousands of keys, and one array for each would take more
/// than twice the memory.
struct KeyBytes: Hashable, Sendable {
  static let count = 32

  private var first: UInt64 = 0
  private var second: UInt64 = 0
  private var third: UInt64 = 0
  private var fourth: UInt64 = 0

  /// Lets `fill` write the 32 bytes.
  init(filledBy fill: (UnsafeMutablePointer<UInt8>) -> Void) {
    withUnsafeMutablePointer(to: &self) { $0.withMemoryRebound(to: UInt8.self, capacity: Self.count) { fill($0) } }
  }

  /// A copy of 32 bytes.
  init(_ bytes: some Collection<UInt8>) {
    precondition(bytes.count == Self.count)
    self.init(filledBy: { room in bytes.withPointer { source, count in room.update(from: source, count: count) } })
  }

  var array: [UInt8] { withPointer { Array(UnsafeBufferPointer(start: $0, count: Self.count)) } }

  func withPointer<Result>(_ body: (UnsafePointer<UInt8>) -> Result) -> Result {
    withUnsafePointer(to: self) { $0.withMemoryRebound(to: UInt8.self, capacity: Self.count) { body($0) } }
  }
}
