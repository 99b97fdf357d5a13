import Air
import Common
import Hall
import Loop
import TestSupport
import Testing
import Transfers
import Tuvali
import Verifier
import Wallet

@Suite("Credential transfers over the simulated radio")
struct TransferTests {
  init() { EventLoop.shared.runInBackground() }

  @Test(
    "A transfer with lost chunks completes at every MTU",
    arguments: [67, 100, 185, 512, 517], [0.0, 0.01, 0.10, 0.50])
  func lossyTransfers(mtu: Int, loss: Double) async throws {
    try await LoopActor.run {
      for seed in 1...3 as ClosedRange<UInt64> {
        let hall = Hall(seed: seed, conditions: AirConditions(maximumMTU: mtu, commandLoss: loss))
        let credential = sampleCredential(mtu < 100 ? 4000 : 10_240)
        let (outgoing, ended) = try hall.visit(credential)
        #expect(ended, "seed \(seed)")
        #expect(outgoing.state == .accepted, "seed \(seed): \(outgoing.error?.sentence ?? "")")
        #expect(hall.hasReceived(credential), "seed \(seed)")
        #expect(hall.incoming?.figures.mtu == mtu)
      }
    }
  }

  @Test("An Android-like wallet with unacknowledged writes completes its transfer at 50% chunk loss")
  func androidLikeWallet() async throws {
    try await LoopActor.run {
      var configuration = WalletEngine.Configuration()
      configuration.resendsWithResponse = false
      let hall = Hall(conditions: AirConditions(commandLoss: 0.5))
      let credential = sampleCredential(10_240)
      let (outgoing, ended) = try hall.visit(credential, configuration)
      #expect(ended)
      #expect(outgoing.state == .accepted)
      #expect(hall.hasReceived(credential))
    }
  }

  @Test("At 80% chunk loss the verifier ends the transfer with TVV_TRA_002 and disconnects")
  func hopelessLoss() async throws {
    try await LoopActor.run {
      let hall = Hall(conditions: AirConditions(commandLoss: 0.8))
      let before = hall.verifier.connectionURI
      let (outgoing, ended) = try hall.visit(sampleCredential(50_000))
      #expect(ended)
      #expect(hall.incoming?.state == .failed)
      #expect(hall.incoming?.error?.code == "TVV_TRA_002")
      #expect(outgoing.state == .failed)
      #expect(!outgoing.isLive)
      #expect(hall.received.isEmpty)
      #expect(hall.verifier.connectionURI != before)
    }
  }

  @Test(
    "With an MTU below 67 the wallet ends with TVW_CON_002 before a transfer starts"
  )
  func smallMTU() async throws {
    try await LoopActor.run {
      let hall = Hall(conditions: AirConditions(maximumMTU: 66))
      let (outgoing, ended) = try hall.visit(sampleCredential(100))
      #expect(ended)
      #expect(hall.incoming == nil && hall.verifier.counters.failed == 0)
      #expect(outgoing.state == .failed)
      #expect(outgoing.error?.code == "TVW_CON_002")
    }
  }

  @Test("A credential transfer succeeds in every dialect", arguments: Dialect.Name.allCases)
  func dialects(name: Dialect.Name) async throws {
    try await LoopActor.run {
      let hall = Hall(dialects: [.named(name)])
      let credential = sampleCredential(3000)
      let (outgoing, ended) = try hall.visit(credential)
      #expect(ended)
      #expect(outgoing.state == .accepted, "\(outgoing.error?.sentence ?? "")")
      #expect(hall.hasReceived(credential))
      #expect(hall.incoming?.dialect == name.rawValue)
      #expect(outgoing.dialect == name.rawValue)
    }
  }

  @Test("With two dialects a transfer has the dialect of the GATT service that the wallet writes to")
  func twoDialects() async throws {
    try await LoopActor.run {
      let hall = Hall(dialects: [.v05, .v04])
      let (outgoing, ended) = try hall.visit(sampleCredential(300))
      #expect(ended)
      #expect(outgoing.state == .accepted)
      #expect(hall.incoming?.dialect == outgoing.dialect)
    }
  }

  @Test("Credentials of 1 byte to 4 MiB arrive unchanged", arguments: [1, 2, 505, 10_240, 1 << 20, 4 << 20])
  func sizes(count: Int) async throws {
    try await LoopActor.run {
      let hall = Hall(conditions: AirConditions(latency: .zero))
      let credential = count >= 1 << 20 ? Array(repeating: UInt8(ascii: "x"), count: count) : sampleCredential(count)
      let (outgoing, ended) = try hall.visit(credential)
      #expect(ended)
      #expect(outgoing.state == .accepted, "\(outgoing.error?.sentence ?? "")")
      #expect(hall.hasReceived(credential))
    }
  }

  @Test("A credential above the limit is refused with a named error on both sides")
  func overTheLimit() async throws {
    try await LoopActor.run {
      let hall = Hall(configure: { $0.credentialLimit = 1000 })
      let (outgoing, ended) = try hall.visit(sampleCredential(1000))
      #expect(ended)
      #expect(outgoing.state == .accepted)

      let (large, largeEnded) = try hall.visit(Array(repeating: UInt8(ascii: "x"), count: 1001))
      #expect(largeEnded)
      #expect((hall.incoming?.error as? TuvaliError)?.reason == .limitExceeded)
      #expect((large.error as? TuvaliError)?.reason == .peerEnded)

      #expect(throws: TuvaliError.self) {
        var small = WalletEngine.Configuration()
        small.credentialLimit = 10
        _ = try hall.addWallet(small).send(hall.verifier.connectionURI, sampleCredential(11))
      }
    }
  }

  @Test("Twenty wallets in succession are served, each with a new key")
  func visitorAfterVisitor() async throws {
    try await LoopActor.run {
      let hall = Hall()
      var invitations: Set<String> = [hall.verifier.connectionURI]
      for number in 1...20 {
        let credential = sampleCredential(1000, seed: UInt64(number))
        let (outgoing, ended) = try hall.visit(credential)
        #expect(ended)
        #expect(outgoing.state == .accepted)
        #expect(hall.hasReceived(credential))
        #expect(invitations.insert(hall.verifier.connectionURI).inserted)
      }
      #expect(hall.verifier.transfers.transfers.count <= 16)
    }
  }

  @Test("Two wallets that read the same QR code at the same time are both served")
  func secondWallet() async throws {
    try await LoopActor.run {
      let hall = Hall(conditions: AirConditions(latency: .milliseconds(20)))
      let credential = sampleCredential(100_000)
      let uri = hall.verifier.connectionURI
      let first = try hall.addWallet().send(uri, credential)
      let second = try hall.addWallet().send(uri, sampleCredential(100, seed: 9))
      #expect(hall.time.run(until: { !second.isLive }, limit: .seconds(100)))
      #expect(second.state == .accepted && first.isLive)
      #expect(hall.finish(first))
      #expect(first.state == .accepted)
      #expect(hall.hasReceived(credential))
      #expect(hall.verifier.counters.refused == 0)
    }
  }

  @Test("If two wallets want the only slot, the second fails as busy, and the first completes")
  func slotInUse() async throws {
    try await LoopActor.run {
      let hall = Hall(conditions: AirConditions(latency: .milliseconds(20)), configure: { $0.visitors = 1 })
      var refusals: [WalletRefusal] = []
      hall.verifier.observe(changed: {}, received: { _ in }, refused: { refusals.append($0) })
      let credential = sampleCredential(100_000)
      let first = try hall.addWallet().send(hall.verifier.connectionURI, credential)
      hall.time.run(until: { hall.incoming?.state == .transferring }, limit: .seconds(5))
      let second = try hall.addWallet().send(hall.verifier.connectionURI, sampleCredential(100, seed: 9))
      #expect(hall.time.run(until: { !second.isLive }, limit: .seconds(10)))
      #expect(second.state == .failed && (second.error as? TuvaliError)?.reason == .busy)
      #expect(hall.incoming?.state == .failed && (hall.incoming?.error as? TuvaliError)?.reason == .busy)
      #expect(refusals.map(\.code) == ["busy"])
      #expect(hall.finish(first) && first.state == .accepted && hall.hasReceived(credential))
    }
  }

  @Test("Without a verdict the wallet's transfer ends as undecided in 120 s, and the credential can still be judged")
  func noVerdict() async throws {
    try await LoopActor.run {
      let hall = Hall(decision: .client)
      let credential = sampleCredential(500)
      let (outgoing, ended) = try hall.visit(credential, limit: .seconds(120))
      #expect(ended)
      #expect(outgoing.state == .undecided)
      let incoming = try #require(hall.incoming)
      #expect(incoming.state == .received)
      #expect(incoming.credential == credential, "it is not whole")
      #expect(hall.verifier.decide(incoming, accepted: false))
      #expect(incoming.state == .rejected)
      #expect(!hall.verifier.decide(incoming, accepted: true))
    }
  }

  @Test("If the adapter disappears during a transfer and returns, the next wallet is served")
  func adapterLost() async throws {
    try await LoopActor.run {
      let hall = Hall()
      let first = try hall.addWallet().send(hall.verifier.connectionURI, sampleCredential(50_000))
      #expect(hall.time.run(until: { hall.incoming?.state == .transferring }, limit: .seconds(60)))
      hall.kioskRadio.power = false
      #expect(hall.time.run(until: { !first.isLive }, limit: .seconds(120)))
      hall.kioskRadio.power = true
      hall.time.advance(by: .zero)
      #expect(first.state == .failed)
      let (outgoing, ended) = try hall.visit(sampleCredential(500))
      #expect(ended)
      #expect(outgoing.state == .accepted, "\(outgoing.error?.sentence ?? "")")
    }
  }
}
