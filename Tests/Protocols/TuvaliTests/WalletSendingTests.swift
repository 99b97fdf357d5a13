import Common
import Crypto
import Testing

@testable import Tuvali

/// From the size to the verdict, and every other end. Facts: tuvali.md sections 5 to 7.
@Suite("Sending by the wallet engine")
struct WalletSendingTests {
  // MARK: Chunks

  @Test("The radio never has more unconfirmed chunks than the window", arguments: [1, 2, 16, 1000])
  func window(size: Int) throws {
    var bench = try WalletBench(at: .announcing, text: noise(5000, seed: 1)) { $0.window = size }
    _ = bench.handle(.written(.responseSize, nil))
    let count = bench.engine.progress.chunksExpected
    #expect(count > 20)
    var left = 0
    var words: [String] = []
    while left < bench.chunks.count {
      #expect(bench.chunks.count - left <= size)
      #expect(bench.chunks.count == min(count, left + size))
      #expect(words == [])
      left += 1
      words = bench.chunksLeave(1).filter { !$0.hasPrefix("command submitResponse") }
    }
    #expect(left == count)
    #expect(words == ["request transferReportRequest 01"])
  }

  @Test("With a window of 0 the wallet sends one chunk at a time")
  func noWindow() throws {
    var bench = try WalletBench(at: .sending) { $0.window = 0 }
    #expect(bench.chunks.count == 1)
    #expect(bench.allChunksLeave().last == "request transferReportRequest 01")
  }

  @Test("A frame that needs more than 32,767 chunks is not announced to the verifier")
  func tooManyChunks() throws {
    var bench = try WalletBench(at: .sealing, mtu: 67)
    let frame = [UInt8](repeating: 0, count: 60 * Limits.chunks)
    var more = bench
    #expect(bench.handle(.sealed(.success(frame))).first?.hasPrefix("request responseSize") == true)
    #expect(more.handle(.sealed(.success(frame + [0]))) == ["tell TVW_UNK_003 limitExceeded", "disconnect"])
  }

  @Test("A credential that cannot be encrypted ends the transfer")
  func notSealed() throws {
    var bench = try WalletBench(at: .sealing)
    let error = TuvaliError(.walletUnknown, .invalidArgument, "No.")
    #expect(bench.handle(.sealed(.failure(error))) == ["tell TVW_UNK_001 invalidArgument", "disconnect"])
  }

  // MARK: Reports

  @Test("Missing chunks are sent again as write requests, and then another report is requested")
  func resending() throws {
    var bench = try WalletBench(at: .asking)
    #expect(bench.report(.missing([2], totalPages: 1)).map { $0.prefix(27) } == ["request submitResponse 0002"])
    #expect(bench.engine.progress.chunksMissing == 1)
    #expect(bench.chunksLeave(1) == ["request transferReportRequest 01"])
    #expect(bench.report(.missing([1, 2], totalPages: 1)).count == 2)
    #expect(bench.chunksLeave(2) == ["request transferReportRequest 01"])
    #expect(bench.report(.success) == ["tell sent"])
    #expect(bench.engine.progress.failureFrames == 2)
    #expect(bench.engine.progress.chunksMissing == 0)
  }

  @Test("Chunk numbers in a report that the wallet's frame does not have are ignored")
  func strangeNumbers() throws {
    var bench = try WalletBench(at: .asking)
    #expect(
      bench.report(.missing([0, 1, 3, 65_535], totalPages: 1)).map { $0.prefix(27) } == ["request submitResponse 0001"])
    #expect(bench.chunksLeave(1) == ["request transferReportRequest 01"])
  }

  @Test("A MISSING report with an empty list is answered with another request and counted")
  func emptyList() throws {
    var bench = try WalletBench(at: .asking)
    #expect(bench.handle(.notified(.transferReportResponse, [0, 0, 0])) == ["request transferReportRequest 01"])
    #expect(bench.engine.progress.failureFrames == 1)
  }

  @Test("After 15 reports of missing chunks the next one ends the transfer with TVW_REP_001")
  func failureFrames() throws {
    var bench = try WalletBench(at: .asking)
    for _ in 1...15 {
      #expect(bench.report(.missing([1], totalPages: 1)).count == 1)
      #expect(bench.chunksLeave(1) == ["request transferReportRequest 01"])
    }
    var successful = bench
    #expect(successful.report(.success) == ["tell sent"])
    #expect(bench.report(.missing([1], totalPages: 1)) == ["tell TVW_REP_001 limitExceeded", "disconnect"])
    #expect(bench.engine.progress.failureFrames == 15)
  }

  @Test("An unreadable report ends the transfer with TVW_UNK_002")
  func unreadableReport() throws {
    for value: [UInt8] in [[], [1], [1, 0], [2, 0, 0], [255, 0, 0, 0, 1]] {
      var bench = try WalletBench(at: .asking)
      #expect(
        bench.handle(.notified(.transferReportResponse, value)) == ["tell TVW_UNK_002 protocolViolation", "disconnect"])
    }
  }

  @Test("A report that the wallet did not request is ignored")
  func unaskedReport() throws {
    for stage in WalletBench.Stage.allCases where stage != .asking {
      var bench = try WalletBench(at: stage)
      #expect(bench.report(.success) == [])
      #expect(bench.report(.missing([1], totalPages: 1)) == [])
      #expect(bench.handle(.notified(.transferReportResponse, [9])) == [])
    }
  }

  // MARK: Refusals

  @Test("Any write that the verifier refuses because of another wallet ends the transfer as busy")
  func busy() throws {
    for (stage, characteristic) in Self.writes {
      var bench = try WalletBench(at: stage)
      #expect(bench.handle(.written(characteristic, .busy)) == ["tell TVW_UNK_002 busy", "disconnect"])
      #expect(bench.failures.last?.hasSuffix("Scan the code that it shows now, and try again.") == true)
    }
  }

  @Test("Any other refused write ends the transfer, except a refused chunk, which counts as missing")
  func refusal() throws {
    for (stage, characteristic) in Self.writes where characteristic != .submitResponse {
      var bench = try WalletBench(at: stage)
      let code = characteristic == .transferReportRequest ? "TVW_REP_001" : "TVW_UNK_002"
      #expect(bench.handle(.written(characteristic, .other)) == ["tell \(code) protocolViolation", "disconnect"])
    }
    var bench = try WalletBench(at: .sending)
    #expect(bench.chunksLeave(1, .other) == [])
    #expect(bench.chunksLeave(1, .other) == ["request transferReportRequest 01"])
  }

  static let writes: [(WalletBench.Stage, Characteristic)] = [
    (.identifying, .identify), (.announcing, .responseSize), (.sending, .submitResponse),
    (.asking, .transferReportRequest),
  ]

  // MARK: Ends

  @Test(
    "Any status except 0 is a rejection, and an empty status is ignored",
    arguments: [([0], "accepted"), ([1], "rejected"), ([2], "rejected"), ([255], "rejected"), ([0, 1], "accepted")])
  func status(value: [UInt8], verdict: String) throws {
    var bench = try WalletBench(at: .awaitingStatus)
    #expect(bench.handle(.notified(.verificationStatus, [])) == [])
    #expect(bench.handle(.notified(.verificationStatus, value)) == ["tell \(verdict)", "disconnect"])
    #expect(bench.handle(.notified(.verificationStatus, value)) == [])
  }

  @Test("A verdict that arrives before the report implies that the credential arrived")
  func earlyVerdict() throws {
    var bench = try WalletBench(at: .asking)
    #expect(bench.handle(.notified(.verificationStatus, [0])) == ["tell sent", "tell accepted", "disconnect"])
    for stage in WalletBench.Stage.allCases where ![.asking, .awaitingStatus].contains(stage) {
      var bench = try WalletBench(at: stage)
      #expect(bench.handle(.notified(.verificationStatus, [0])) == [])
    }
  }

  @Test(
    "Disconnect ends the transfer at every stage, as a failure if the credential has not arrived",
    arguments: WalletBench.Stage.allCases)
  func disconnectRequest(stage: WalletBench.Stage) throws {
    var bench = try WalletBench(at: stage)
    #expect(bench.handle(.notified(.disconnect, [])) == [])
    #expect(bench.handle(.notified(.disconnect, [0])) == [])
    #expect(bench.handle(.notified(.disconnect, [2])) == [])
    let words = bench.handle(.notified(.disconnect, [1]))
    switch stage {
    case .idle, .scanning, .leaving, .ended: #expect(words == [])
    case .awaitingStatus: #expect(words == ["disconnect"])
    default:
      #expect(words == ["tell TVW_UNK_003 peerEnded", "disconnect"])
      #expect(bench.failures.last?.hasSuffix("Scan the code that it shows now, and try again.") == true)
    }
    if words.contains("disconnect") { #expect(bench.handle(.disconnected) == ["tell ended"]) }
  }

  @Test(
    "A lost link ends the transfer at every stage, as a failure if the credential has not arrived",
    arguments: WalletBench.Stage.allCases)
  func linkLost(stage: WalletBench.Stage) throws {
    var bench = try WalletBench(at: stage)
    let lost = stage.isUnderWay ? ["tell TVW_UNK_001 peerLost"] : []
    #expect(bench.handle(.disconnected) == (stage.hasLink ? lost + ["tell ended"] : []))
    #expect(bench.handle(.disconnected) == [])
    if stage.hasLink { #expect(bench.engine.deadline == nil) }
  }

  @Test("Stopping the wallet ends the transfer at every stage", arguments: WalletBench.Stage.allCases)
  func stop(stage: WalletBench.Stage) throws {
    var bench = try WalletBench(at: stage)
    let words = bench.handle(.stop)
    switch stage {
    case .idle: #expect(words == ["tell TVW_UNK_001 stopped", "tell ended"])
    case .scanning: #expect(words == ["stop scanning", "tell TVW_UNK_001 stopped", "tell ended"])
    case .leaving, .ended: #expect(words == [])
    default: #expect(words == ["tell TVW_UNK_001 stopped", "disconnect"])
    }
    #expect(bench.handle(.stop) == [])
    #expect(bench.handle(.start) == [])
  }
}
