import Bitchat
import Common
import Loop
import Radio

/// Sends the queued packets of links: one packet per write or notification.
@LoopActor
final class FrameSender {
  private static let writeAttempts = 3
  /// Time in which a client that has written must subscribe; not every radio reports subscriptions.
  private static let subscribingTime = Duration.seconds(2)
  /// Number of queued file packets of a link at which the engine is notified. It is notified at 0, too.
  private static let fewFilePackets = 8

  private let node: MeshNode
  /// Returns the link of the mesh with this ID.
  private let port: @LoopActor (LinkID) -> MeshPort?
  /// Server of the node's application while the node takes part in the mesh.
  var server: (any GATTServer)?
  private var overheard = OverheardFrames()
  private var dropped: [PacketClass: UInt64] = [:]
  /// Number of frames that the radio has accepted.
  private(set) var sent: UInt64 = 0
  /// Number of frames that a link rejected: its peer is gone, or never subscribed.
  private(set) var unreachable: UInt64 = 0

  init(_ node: MeshNode, port: @escaping @LoopActor (LinkID) -> MeshPort?) {
    (self.node, self.port) = (node, port)
  }

  var tallies: [Tally] {
    let lost = dropped.reduce(0) { $0 + $1.value }
    return [Tally("SentFrames", sent), Tally("DroppedFrames", lost), Tally("UnreachableFrames", unreachable)]
  }

  func send(_ bytes: [UInt8], on port: MeshPort, _ kind: PacketClass) {
    fit(port, for: kind)
    for kind in port.queue.append(bytes, as: kind) {
      dropped[kind, default: 0] += 1
      if kind == .file { tookFile(port) }
    }
    pump(port)
  }

  /// Sets how many packets the radio may queue for a link: many for a fast file transfer, few beside chat, which
  /// cannot overtake them.
  private func fit(_ port: MeshPort, for kind: PacketClass) {
    let isBesideChat = node.engine?.isBesideChat(at: node.now) ?? true
    guard kind == .file || isBesideChat else { return }
    let backlog = isBesideChat ? Backlog.short : .long
    guard backlog != port.backlog else { return }
    port.backlog = backlog
    node.radio.allow(backlog, on: port.id)
  }

  /// Sends queued packets until the radio accepts no more.
  func pump(_ port: MeshPort) {
    port.queue.holdsFiles = node.radio.isQuietWanted
    while !port.isBusy, let frame = port.queue.first {
      let isFile = port.queue.next == .file
      if let client = port.client, port.isClientReady, !isOnlyNotified(frame, port) {
        port.queue.removeFirst()
        if isFile { tookFile(port) }
        if client.streamNow(frame, to: BitchatGATT.characteristic) {
          sent += 1
        } else {
          // Writing continues when this frame is written.
          (port.isBusy, port.writing) = (true, (frame, 1))
          client.write(frame, to: BitchatGATT.characteristic, as: .stream)
        }
        continue
      }
      guard let server, port.isServed else { return }
      if overheard.take(frame, on: port.id, at: node.now) {
        port.queue.removeFirst()
        if isFile { tookFile(port) }
        continue
      }
      let delivery = server.notify(frame, of: BitchatGATT.characteristic, to: .link(port.id))
      if delivery.full.contains(port.id) {
        port.isBusy = true
        return
      }
      if delivery.accepted.isEmpty {
        // A peer may write before its subscription arrives; packets for it wait.
        guard port.isSubscribed else { return }
        unreachable += 1
      } else {
        sent += 1
        note(frame, overheardOn: delivery.overheard)
      }
      port.queue.removeFirst()
      if isFile { tookFile(port) }
    }
  }

  /// Records which links have received a notification that was meant for one link. They need no notification of their
  /// own for this frame, because all links would receive it again.
  private func note(_ frame: [UInt8], overheardOn links: [LinkID]) {
    let now = node.now
    let others = links.filter { link in
      guard let port = port(link), port.isOpen else { return false }
      return port.since.duration(to: now) >= Self.subscribingTime
    }
    overheard.note(frame, on: others, at: now)
  }

  /// Whether a frame is too long to be written to the peer. Such a frame was made while the peer could only be
  /// notified.
  private func isOnlyNotified(_ frame: [UInt8], _ port: MeshPort) -> Bool {
    frame.count > port.frameLimit && port.isServed && port.isSubscribed
  }

  func hasRoomAgain(_ port: MeshPort) {
    port.isBusy = false
    pump(port)
  }

  /// Handles the result of a write. A failed write is repeated, because a bearer that ended may have lost it.
  func wrote(_ port: MeshPort, _ error: ATTError?) {
    if error != nil, let (frame, attempts) = port.writing {
      if attempts < Self.writeAttempts, !port.isCut, let client = port.client {
        port.writing = (frame, attempts + 1)
        return client.write(frame, to: BitchatGATT.characteristic, as: .stream)
      }
      unreachable += 1
    }
    if error == nil { sent += 1 }
    port.writing = nil
    if let port = self.port(port.id) { hasRoomAgain(port) }
  }

  /// Continues with notifications after the end of the GATT client on a link.
  func clientEnded(_ port: MeshPort, wasWriting: Bool) {
    if wasWriting { unreachable += 1 }
    pump(port)
  }

  // MARK: Files

  /// Records that a link has sent a packet of a file. The engine is notified at `fewFilePackets` and at 0 queued
  /// packets.
  private func tookFile(_ port: MeshPort) {
    if port.queue.files == Self.fewFilePackets || port.queue.files == 0 { tellRoom(port) }
  }

  /// Reports the number of queued file packets to the engine, once per loop iteration.
  private func tellRoom(_ port: MeshPort) {
    guard !port.isRoomToBeTold else { return }
    port.isRoomToBeTold = true
    node.scheduler.soon { [weak self, weak port] in
      guard let self, let port else { return }
      port.isRoomToBeTold = false
      guard self.port(port.id) === port else { return }
      node.handle(.room(port.id, waiting: port.queue.files))
    }
  }

  /// Removes the packets of a stopped file from a queue. A packet that is being written is not retried.
  func withdraw(_ packets: FilePackets, from port: MeshPort) {
    if let frame = port.writing?.frame, packets.contains(frame) { port.writing = (frame, Self.writeAttempts) }
    guard !port.queue.isEmpty else { return }
    port.queue.removeFiles(where: packets.contains)
    tellRoom(port)
  }
}
