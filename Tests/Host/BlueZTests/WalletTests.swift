import BlueZ
import Bytes
import Common
import Crypto
import DBus
import Loop
import Radio
import Sharing
import TestSupport
import Testing
import Transfers
import Tuvali
import Verifier

@testable import Wallet

@Suite("A wallet on BlueZ", .serialized)
struct WalletTests {
  init() { EventLoop.shared.runInBackground() }

  /// A kiosk on hci0 and a wallet on hci1, each on a radio of its own.
  @LoopActor
  final class Pair {
    let rig: Rig
    let air: BluetoothAir
    let verifier: VerifierService
    let wallet: WalletService
    let received = Mailbox<Transfer>()
    private let kioskBus: BusConnection
    private let kiosk: SharedRadio

    init(walletLimits: WalletEngine.Configuration = .init()) async throws {
      rig = try await Rig(
        adapter: "hci1",
        prepare: {
          $0.addAdapter()
          $0.addAdapter("hci1")
        })
      try await rig.reach(.ready)
      air = BluetoothAir(rig.fake)
      kioskBus = BusConnection(address: .address(rig.bus.address))
      let driver = BlueZRadio(bus: kioskBus, adapter: "hci0", scheduler: rig.time)
      kiosk = SharedRadio(driver: driver, scheduler: rig.time)
      // The wallet uses the dialect that it receives first; the simulated channel carries no characteristic that both
      // services have.
      verifier = VerifierService(
        radio: kiosk.tenant("verifier", share: LinkShare(needs: 1, may: 8, priority: 1)), scheduler: rig.time,
        settings: .init(engine: .init(name: "OVPMOSIP"), dialects: [.v05], decision: .accept),
        random: SeededRandom(seed: 1))
      wallet = WalletService(
        radio: rig.tenant("wallet"), scheduler: rig.time, settings: .init(engine: walletLimits),
        random: { SeededRandom(seed: 2) })
      kioskBus.connect()
      try await kioskBus.ready()
      let fake = rig.fake
      verifier.observe(changed: { fake.tell("verifier") }, received: { [received] in received.put($0) })
      wallet.onChange = { fake.tell("wallet") }
    }

    func close() {
      wallet.stop()
      verifier.stop()
      kioskBus.close()
      rig.close()
    }

    /// Starts the kiosk, and waits until its advertisement is being sent.
    func open() async throws -> String {
      _ = verifier.start()
      // While the radio is not ready no invitation is shown.
      try await rig.fake.until { [self] in
        rig.fake.advertisements.first?.isOnAir == true && rig.fake.applications.first?.characteristics.isEmpty == false
          && !verifier.connectionURI.isEmpty
      }
      return verifier.connectionURI
    }

    /// Sends a credential, and delivers the kiosk's advertisements until the wallet connects.
    func send(_ credential: [UInt8], _ invitation: String) async throws -> Transfer {
      let connects = self.connects
      let transfer = try wallet.send(invitation, credential)
      try await rig.fake.until { [self] in
        air.carry()
        return self.connects > connects
      }
      return transfer
    }

    private var connects: Int { rig.fake.calls.all.filter { $0.hasPrefix("Connect") }.count }

    func end(of transfer: Transfer) async throws {
      let fake = rig.fake
      transfer.onChange { fake.tell("transfer \($0.state)") }
      try await fake.until { [wallet] in !transfer.isLive && wallet.active == 0 }
    }
  }

  @Test("A wallet on BlueZ sends its credential in chunks that fit the MTU, and gets the verdict")
  @LoopActor
  func credential() async throws {
    let pair = try await Pair()
    defer { pair.close() }
    var dice = SeededRandom(seed: 3)
    // Incompressible text of some forty chunks.
    let credential = Array("\"\(Base64URL.encode(dice.bytes(15_000)))\"".utf8)
    let transfer = try await pair.send(credential, try await pair.open())
    #expect(try await pair.received.next().credential == credential)
    try await pair.end(of: transfer)
    #expect(transfer.state == .accepted)
    #expect(transfer.figures.mtu == 517)
    // No state is left, and the next wallet finds the kiosk's new key.
    try await pair.rig.fake.until {
      !pair.rig.fake.isDiscovering("hci1") && pair.rig.fake.devices.keys.allSatisfy { $0.isWithin("/org/bluez/hci0") }
        && pair.rig.fake.advertisements.first?.isOnAir == true
    }
    let next = try await pair.send(Array("two".utf8), pair.verifier.connectionURI)
    #expect(try await pair.received.next().credential == Array("two".utf8))
    try await pair.end(of: next)
    #expect(next.state == .accepted)
  }

  @Test("A restart of bluetoothd during the wallet's scan only delays the transfer")
  @LoopActor
  func restartWhileScanning() async throws {
    let pair = try await Pair()
    defer { pair.close() }
    let transfer = try pair.wallet.send(try await pair.open(), Array("one".utf8))
    try await pair.rig.fake.until { pair.rig.fake.isDiscovering("hci1") }
    pair.rig.fake.vanish()
    try await pair.rig.reach(.waiting)
    try await pair.rig.fake.start()
    try await pair.rig.fake.until {
      pair.rig.fake.isDiscovering("hci1") && pair.rig.fake.advertisements.first?.isOnAir == true
        && pair.rig.fake.applications.first?.characteristics.isEmpty == false
    }
    pair.air.carry()
    #expect(try await pair.received.next().credential == Array("one".utf8))
    try await pair.end(of: transfer)
    #expect(transfer.state == .accepted)
  }

  /// Stage of a transfer at which the fault happens.
  enum Step: String, CaseIterable, Sendable {
    case connecting, connected, identify, responseSize, submitResponse, transferReportRequest

    /// The write that is not carried out.
    var write: String? {
      Characteristic.allCases.first { "\($0)" == rawValue }.map { Dialect.v05.uuid(of: $0).description }
    }
  }

  enum Fault: CaseIterable, Sendable { case daemonGone, adapterGone, peerLost, peerForgotten, writeRefused }

  static let allFaults = Step.allCases.flatMap { step in Fault.allCases.map { (step, $0) } }
    // While connecting there is no write to refuse, and a refused chunk is only missing, because it is not a request.
    .filter { $0.1 != .writeRefused || $0.0.write != nil && $0.0 != .submitResponse }

  @Test(
    "After a fault at any step the wallet's transfer ends with an error sentence, and the next succeeds",
    arguments: allFaults)
  @LoopActor
  func faults(step: Step, fault: Fault) async throws {
    let pair = try await Pair()
    defer { pair.close() }
    let (fake, peer) = (pair.rig.fake, pair.air.peer)
    let strike: @LoopActor () -> Void = {
      switch fault {
      case .daemonGone: fake.vanish()
      case .adapterGone: fake.removeAdapter("hci1")
      case .peerLost:
        fake.lose(peer)
        peer.giveUpConnecting()
      case .peerForgotten: fake.removeDevice(fake.devicePath(peer.address, on: peer.adapter))
      case .writeRefused: break
      }
    }
    peer.isDeaf = step == .connecting
    peer.isUnreadable = step == .connected
    let onWrite = peer.onWrite
    var hasStruck = false
    peer.onWrite = { write, answer in
      guard write.uuid == step.write, !hasStruck else { return onWrite(write, answer) }
      hasStruck = true
      if fault == .writeRefused {
        answer(DBusError(name: "org.bluez.Error.Failed", message: "Operation failed with ATT error: 0x0e"))
      } else {
        strike()
      }
    }
    let transfer = try await pair.send(Array("one".utf8), try await pair.open())
    if step.write == nil {
      _ = try await fake.calls.first { $0.hasPrefix("Connect") }
      try await pair.rig.settle()
      strike()
    }
    try await pair.end(of: transfer)
    #expect(transfer.state == .failed)
    #expect(transfer.error?.sentence.isEmpty == false)

    peer.onWrite = onWrite
    (peer.isDeaf, peer.isUnreadable) = (false, false)
    if fault == .daemonGone { try await fake.start() }
    if fault == .adapterGone { fake.addAdapter("hci1") }
    if pair.rig.radio.status.state != .ready { try await pair.rig.reach(.ready) }
    try await fake.until {
      pair.verifier.state == .waiting && fake.advertisements.first?.isOnAir == true
        && fake.applications.first?.characteristics.isEmpty == false
    }
    let next = try await pair.send(Array("two".utf8), pair.verifier.connectionURI)
    #expect(try await pair.received.next().credential == Array("two".utf8))
    try await pair.end(of: next)
    #expect(next.state == .accepted)
  }
}
