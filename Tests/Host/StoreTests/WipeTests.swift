import Testing

@testable import Store

@Suite("Wiping of arrays")
struct WipeTests {
  @Test("A wiped array holds only zeros", arguments: [0, 1, 32, 5000])
  func wiped(count: Int) {
    var bytes = [UInt8](repeating: 0xA5, count: count)
    bytes.wipe()
    #expect(bytes.count == count && bytes.allSatisfy { $0 == 0 })
  }
}
