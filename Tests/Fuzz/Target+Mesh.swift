extension Target {
  /// The complete engine of a mesh node: bytes and time in.
  static let mesh = [
    Target(
      name: "mesh", seeds: { MeshStand.seeds }, goals: MeshStand.goals,
      play: { bytes in
        var stand = MeshStand()
        var script = Script(bytes)
        while !script.isAtEnd { stand.step(&script) }
        return stand.reached
      }),
    // With dialects, which the first byte selects.
    Target(
      name: "mesh-dialects", seeds: { MeshStand.seedSeeds }, goals: MeshStand.seedGoals,
      play: { bytes in
        var script = Script(bytes)
        let choice = script.byte()
        var stand = MeshStand(dialects: [choice & 1 == 0 ? .live : .seed, choice & 2 == 0 ? .live : .seed])
        while !script.isAtEnd { stand.step(&script) }
        return stand.reached
      }),
  ]
}
