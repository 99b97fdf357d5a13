import Radio
import Testing
import Transfers
import Tuvali

@testable import Mesh

@Suite("Each GATT service has attribute handles of its own")
struct HandleRangeTests {
  private static let services =
    Dialect.Name.allCases.map { Dialect.named($0).gattService } + BitchatGATT.application.services

  @Test("No two services have a handle in common, and all are below 1,024")
  func apart() throws {
    let ranges = try Self.services.map { service in
      let first = Int(try #require(service.firstHandle))
      return first...(first + service.handleCount - 1)
    }
    #expect(ranges.count == 4)
    for (index, range) in ranges.enumerated() {
      // From 1,024 on bluetoothd makes no Database Hash ("bluez.md").
      #expect(range.lowerBound >= 0x0200 && range.upperBound < 0x0300, "\(range)")
      #expect(ranges[..<index].allSatisfy { !$0.overlaps(range) }, "\(range)")
    }
  }

  @Test("A verifier's service has 24 attributes: itself, nine characteristics, and five configurations")
  func counts() {
    #expect(Dialect.v05.gattService.handleCount == 24)
    #expect(BitchatGATT.application.services.map(\.handleCount) == [4])
  }
}
