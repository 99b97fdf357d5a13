import Air
import Common
import Loop
import Radio

@testable import Mesh

/// A phone in a village without this project's services. The test decides what it writes over its link to a house.
@LoopActor
final class Stranger {
  private let radio: any Radio
  private let target: BluetoothAddress
  private var link: (any Link)?
  private(set) var isLinked = false
  private(set) var isExplored = false
  /// The notifications from the house.
  var heard: [[UInt8]] = []

  /// A phone beside a house, which it connects to.
  init(on village: Village, to house: Village.House) {
    radio = village.air.addNode(position: AirPosition(x: 1)).tenant(village.time)
    target = house.radio.address
    connect()
  }

  func connect() {
    link = try? radio.connect(to: target) { [weak self] event in
      switch event {
      case .connected: self?.isLinked = true
      case .discovered: self?.isExplored = true
      case .notified(_, let value): self?.heard.append(value)
      case .disconnected: self?.ended()
      default: break
      }
    }
  }

  func disconnect() { link?.disconnect() }

  private func ended() { (isLinked, isExplored, link) = (false, false, nil) }

  /// Negotiates the apps' MTU, and discovers the house's services.
  func explore() {
    exchangeMTU()
    discover()
  }

  func exchangeMTU() { link?.exchangeMTU(BitchatGATT.mtu) }

  func discover() { link?.discover() }

  func subscribe() { link?.subscribe(to: BitchatGATT.characteristic) }

  func write(_ bytes: [UInt8], as kind: WriteKind) { link?.write(bytes, to: BitchatGATT.characteristic, as: kind) }

  /// Serves the GATT service of a node, which houses write to.
  func serve(_ delegate: any GATTServerDelegate) -> any GATTServer {
    radio.serve(BitchatGATT.application, delegate: delegate)
  }
}
