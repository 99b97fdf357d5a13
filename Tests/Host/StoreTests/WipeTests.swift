import Testing

@testable import Store

@Suite("What was read or written in the clear is overwritten")
struct WipeTests {
  @Test("An array that is wiped holds zeros and nothing else", arguments: [0, 1, 32, 5000])
  func wiped(count: Int) {
    var bytes = [UInt8](repeating: 0xA5, count: count)
    bytes.wipe()
    #expect(bytes.count == count && bytes.allSatisfy { $0 == 0 })
  }
}
