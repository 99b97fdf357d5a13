import Bytes
import Common
import Crypto
import Testing

@testable import Tuvali

/// From the invitation to the keys. Facts: tuvali.md sections 1 to 4 and 7.
@Suite("The wallet engine with its verifier")
struct WalletTests {
  @Test("A wallet's transfer runs from the scan to the verdict")
  func wholeTransfer() throws {
    var bench = try WalletBench()
    #expect(bench.handle(.start) == ["scan 1 ab29"])
    #expect(bench.handle(.start) == [])
    #expect(bench.sight() == ["stop scanning", "connect 7"])
    #expect(bench.handle(.connected) == ["discover"])
    #expect(bench.handle(.discovered(bench.services)) == ["exchange MTU 517"])
    #expect(
      bench.handle(.mtuChanged(185)) == [
        "tell connected 185", "subscribe transferReportResponse v05", "subscribe verificationStatus v05",
        "subscribe disconnect v05",
      ])
    let identify = bench.subscribeAll()
    #expect(identify.count == 1 && identify[0].hasPrefix("request identify ") && identify[0].hasSuffix(" 44"))
    #expect(bench.handle(.written(.identify, nil)) == ["tell secured", "seal"])
    let announcement = bench.seal()
    let size = try ResponseSize(reading: bench.values[.responseSize] ?? [], as: .bigEndian).checked(limit: 1000)
    #expect(announcement == ["request responseSize " + Hex.encode(ResponseSize(size).bytes(as: .bigEndian))])
    #expect((179...356).contains(size))
    #expect(
      bench.handle(.written(.responseSize, nil))
        == ["tell announced", "command submitResponse 0001.. 182", "command submitResponse 0002.. \(size - 174)"])
    #expect(bench.chunksLeave(1) == [])
    #expect(bench.chunksLeave(1) == ["request transferReportRequest 01"])
    #expect(bench.report(.success) == ["tell sent"])
    #expect(bench.handle(.notified(.verificationStatus, [0])) == ["tell accepted", "disconnect"])
    #expect(bench.handle(.disconnected) == ["tell ended"])
    #expect(bench.handle(.disconnected) == [])
    #expect(bench.engine.deadline == nil)

    var assembler = Assembler(size: size, layout: ChunkLayout(mtu: 185), firstSequence: 1)
    for chunk in bench.chunks { #expect(assembler.add(chunk) == .stored) }
    let frame = try #require(assembler.frame())
    #expect(try bench.verifierKeys().open(frame, limit: 1000) == WalletBench.text)
    #expect(bench.engine.progress.bytesSent == size)
    #expect(bench.engine.progress.bytesExpected == size)
    #expect(bench.engine.progress.chunksExpected == 2)
  }

  @Test("In Android's configuration all writes of the wallet are write commands")
  func commands() throws {
    var bench = try WalletBench(at: .subscribing) {
      $0.controlsWithResponse = false
      $0.resendsWithResponse = false
    }
    #expect(bench.subscribeAll().allSatisfy { $0.hasPrefix("command identify") })
    _ = bench.handle(.written(.identify, nil))
    #expect(bench.seal().allSatisfy { $0.hasPrefix("command responseSize") })
    _ = bench.handle(.written(.responseSize, nil))
    #expect(bench.allChunksLeave() == ["command transferReportRequest 01"])
    #expect(bench.report(.missing([2], totalPages: 1)).allSatisfy { $0.hasPrefix("command submitResponse 0002") })
  }

  // MARK: The invitation and the credential

  @Test("The wallet refuses an invalid invitation with TVW_CON_001")
  func badInvitation() {
    let error = refusal {
      try WalletEngine(
        invitation: "https://example.org", text: WalletBench.text, configuration: .init(), random: SeededRandom(seed: 1)
      )
    }
    #expect(error?.code == "TVW_CON_001")
  }

  @Test("A credential is UTF-8 text of one byte up to the limit")
  func credential() throws {
    _ = try WalletBench(text: [0x7B])
    _ = try WalletBench(text: WalletBench.text) { $0.credentialLimit = WalletBench.text.count }
    let refused: [([UInt8], TuvaliError.Reason)] = [
      ([], .invalidArgument), ([0xFF], .invalidArgument), (Array("ü".utf8.prefix(1)), .invalidArgument),
      (WalletBench.text + [0x20], .limitExceeded),
    ]
    for (text, reason) in refused {
      let error = refusal {
        try WalletBench(text: text) { $0.credentialLimit = WalletBench.text.count }
      }
      #expect(error?.code == "TVW_UNK_001")
      #expect(error?.reason == reason)
    }
  }

  @Test("An invitation with a low-order key fails before anything is written")
  func weakKey() throws {
    let zeros = try X25519.PublicKey([UInt8](repeating: 0, count: 32))
    let invitation = try Invitation(name: "OVP", key: zeros)
    var bench = try WalletBench()
    bench.engine = try WalletEngine(
      invitation: invitation.text(as: .uri), text: WalletBench.text, configuration: .init(),
      random: SeededRandom(seed: 1))
    _ = bench.handle(.start)
    let data = [
      Dialect.v05.service: invitation.advertisedServiceData,
      Dialect.v05.scanResponse: invitation.scanResponseServiceData,
    ]
    _ = bench.handle(.sighted(token: 1, serviceData: data))
    _ = bench.handle(.connected)
    _ = bench.handle(.discovered(bench.services))
    _ = bench.handle(.mtuChanged(185))
    #expect(bench.subscribeAll() == ["tell TVW_CON_001 protocolViolation", "disconnect"])
  }

  // MARK: The scan

  @Test("The form of the invitation decides for which dialects the wallet scans", arguments: Dialect.Name.allCases)
  func dialects(name: Dialect.Name) throws {
    let dialect = Dialect.named(name)
    var bench = try WalletBench(in: dialect)
    #expect(bench.handle(.start) == [name == .v03 ? "scan ab29" : "scan 1 ab29"])
    #expect(bench.sight() == ["stop scanning", "connect 7"])
    _ = bench.handle(.connected)
    #expect(bench.handle(.discovered(bench.services)) == ["exchange MTU 517"])
    #expect(bench.handle(.mtuChanged(185)).last == "subscribe disconnect \(name)")
    _ = bench.subscribeAll()
    _ = bench.handle(.written(.identify, nil))
    _ = bench.seal()
    let size = try #require(bench.values[.responseSize])
    #expect(try ResponseSize(reading: size, as: dialect.sizeEncoding).checked(limit: 1000) > 17)
    let first = bench.handle(.written(.responseSize, nil))[1]
    #expect(first == "command submitResponse 000\(dialect.firstSequence).. 182")
  }

  @Test("The wallet connects only to the advertiser with the name and all 32 key bytes")
  func matching() throws {
    var bench = try WalletBench(at: .scanning)
    let right = bench.serviceData()
    let (service, scanResponse) = (bench.dialect.service, bench.dialect.scanResponse)
    let advertised = try #require(right[service])
    let rest = try #require(right[scanResponse])
    var flipped = rest
    flipped[26] ^= 1
    let others: [[BluetoothUUID: [UInt8]]] = [
      [:],
      [service: advertised],
      [scanResponse: rest],
      [service: advertised + [0], scanResponse: rest],
      [service: Array(advertised.dropLast()), scanResponse: rest],
      [service: Array("OVPMOSIQ".utf8) + advertised.dropFirst(8), scanResponse: rest],
      [service: advertised, scanResponse: rest + [0]],
      [service: advertised, scanResponse: Array(rest.dropLast())],
      [service: advertised, scanResponse: []],
      [service: advertised, scanResponse: flipped],
      // Half of one dialect, half of the other.
      [service: advertised, Dialect.v04.scanResponse: rest],
    ]
    for other in others { #expect(bench.handle(.sighted(token: 1, serviceData: other)) == []) }
    #expect(bench.handle(.sighted(token: 2, serviceData: right)) == ["stop scanning", "connect 2"])
    #expect(bench.handle(.sighted(token: 3, serviceData: right)) == [])
  }

  @Test("An impostor with the name and five key bytes is ignored, and named at the timeout")
  func impostor() throws {
    var bench = try WalletBench(at: .scanning)
    var data = bench.serviceData()
    data[bench.dialect.scanResponse] = [UInt8](repeating: 1, count: 27)
    #expect(bench.handle(.sighted(token: 1, serviceData: data)) == [])
    var alone = bench
    alone.now = alone.now.advanced(by: .seconds(30))
    let failures = alone.engine.handle(.timer, at: alone.now).compactMap {
      if case .tell(.failed(let error)) = $0 { error } else { nil }
    }
    #expect(failures.map(\.code) == ["TVW_UNK_001"])
    #expect(failures.first?.sentence.contains("imitates") == true)
    #expect(bench.sight() == ["stop scanning", "connect 7"])
  }

  // MARK: The link

  @Test("If services are missing, discovery is repeated 5 times and then fails with TVW_CON_003")
  func discovery() throws {
    var bench = try WalletBench(at: .discovering)
    let incomplete: [[BluetoothUUID: Set<BluetoothUUID>]] = [
      [:], [bench.dialect.service: []], [Dialect.v04.service: bench.services[bench.dialect.service] ?? []],
      bench.services.mapValues { $0.filter { $0 != bench.dialect.uuid(of: .disconnect) } }, [:],
    ]
    for (wait, services) in zip([2, 4, 8, 16, 32], incomplete) {
      #expect(bench.handle(.discovered(services)) == [])
      bench.expectAt(.milliseconds(wait), ["discover"])
    }
    var late = bench
    #expect(late.handle(.discovered(late.services)) == ["exchange MTU 517"])
    #expect(bench.handle(.discovered([:])) == ["tell TVW_CON_003 protocolViolation", "disconnect"])
  }

  @Test("The two characteristics that a transfer does not use may be absent")
  func unusedCharacteristics() throws {
    var bench = try WalletBench(at: .discovering)
    let used = Characteristic.allCases.filter { $0.direction != .unused }.map(bench.dialect.uuid(of:))
    #expect(bench.handle(.discovered([bench.dialect.service: Set(used)])) == ["exchange MTU 517"])
  }

  @Test("An MTU below 67 before the frame is split into chunks ends the transfer with TVW_CON_002")
  func smallMTU() throws {
    for stage in [WalletBench.Stage.exchangingMTU, .subscribing, .identifying, .sealing] {
      var bench = try WalletBench(at: stage)
      #expect(bench.handle(.mtuChanged(66)) == ["tell TVW_CON_002 protocolViolation", "disconnect"])
    }
    var bench = try WalletBench(at: .exchangingMTU)
    #expect(bench.handle(.mtuChanged(67)).first == "tell connected 67")
  }

  @Test("The chunk size follows the last MTU before the frame is split")
  func latestMTU() throws {
    var bench = try WalletBench(at: .identifying, mtu: 67)
    #expect(bench.handle(.mtuChanged(517)) == [])
    _ = bench.handle(.written(.identify, nil))
    _ = bench.seal()
    #expect(bench.handle(.written(.responseSize, nil)).count == 2)
    #expect(bench.engine.progress.chunksExpected == 1)
  }

  @Test("Identify is sent after all three subscriptions, even if one is reported twice")
  func subscriptions() throws {
    var bench = try WalletBench(at: .subscribing)
    #expect(bench.handle(.subscribed(.disconnect)) == [])
    #expect(bench.handle(.subscribed(.disconnect)) == [])
    #expect(bench.handle(.subscribed(.disconnect)) == [])
    #expect(bench.handle(.subscribed(.transferReportResponse)) == [])
    #expect(bench.handle(.subscribed(.verificationStatus)).first?.hasPrefix("request identify") == true)
  }

  @Test("Each transfer of a wallet has its own key and nonce")
  func freshKeys() throws {
    var bench = try WalletBench()
    var identifies: Set<[UInt8]> = []
    for seed in UInt64(0)..<10 {
      bench.engine = try WalletEngine(
        invitation: bench.invitation.text(as: .uri), text: WalletBench.text, configuration: .init(),
        random: SeededRandom(seed: seed))
      _ = bench.handle(.start)
      _ = bench.sight()
      _ = bench.handle(.connected)
      _ = bench.handle(.discovered(bench.services))
      _ = bench.handle(.mtuChanged(185))
      _ = bench.subscribeAll()
      identifies.insert(try #require(bench.values[.identify]))
    }
    #expect(identifies.count == 10)
    #expect(Set(identifies.map { $0.prefix(12) }).count == 10)
  }
}
