import Testing

@testable import Bitchat
@testable import BitchatWire

@Suite("Peer table storage: the dense table")
struct DenseTableTests {
  /// A deterministic generator: equal numbers in each run.
  private struct Numbers: RandomNumberGenerator {
    var state: UInt64 = 5

    mutating func next() -> UInt64 {
      state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
      return state ^ state >> 29
    }
  }

  @Test("After 20,000 random changes a dense table has the content of a dictionary")
  func model() {
    var random = Numbers()
    var table = DenseTable<UInt8, [Int]>()
    var model: [UInt8: [Int]] = [:]
    for step in 0..<20_000 {
      let key = UInt8.random(in: 0..<100, using: &random)
      switch Int.random(in: 0..<5, using: &random) {
      case 0: (table[key], model[key]) = ([step], [step])
      case 1:
        table.update(key) { $0.append(step) }
        model[key]?.append(step)
      case 2:
        guard let place = table.place(of: key) else { continue }
        table.update(at: place) { $0[0] = -step }
        model[key]?[0] = -step
      case 3: (table[key], model[key]) = (nil, nil)
      default: #expect(table[key] == model[key] && table.holds(key) == (model[key] != nil))
      }
      #expect(table.count == model.count)
    }
    #expect(model.count > 20)
    #expect(Dictionary(uniqueKeysWithValues: zip(table.keys, table.values)) == model)
    for key in table.keys { #expect(table.place(of: key).map { table.keys[$0] } == key) }
  }
}
