import Radio
import Testing
import Transfers
import Tuvali

@testable import BlueZ
@testable import Mesh

@Suite("GATT handle ranges")
struct HandleRangeTests {
  private static let services =
    Dialect.Name.allCases.map { Dialect.named($0).gattService } + BitchatGATT.application.services

  @Test("No two services use the same GATT handle, and the handles of all fit in one block")
  func apart() throws {
    let ranges = try Self.services.map { service in
      let first = Int(try #require(service.handleOffset))
      return first...(first + service.handleCount - 1)
    }
    #expect(ranges.count == 4)
    for (index, range) in ranges.enumerated() {
      #expect(range.upperBound < HandleBlock.size, "\(range)")
      #expect(ranges[..<index].allSatisfy { !$0.overlaps(range) }, "\(range)")
    }
  }

  @Test("The GATT service of the verifier has 24 attributes: 1 service, 9 characteristics and 5 CCCDs")
  func counts() {
    #expect(Dialect.v05.gattService.handleCount == 24)
    #expect(BitchatGATT.application.services.map(\.handleCount) == [4])
  }
}

extension GATTService {
  /// Number of its attributes: one for the service. Each characteristic adds a declaration, a value and, if clients can
  /// subscribe, a Client Characteristic Configuration.
  fileprivate var handleCount: Int { 1 + characteristics.reduce(0) { $0 + ($1.canNotify ? 3 : 2) } }
}
