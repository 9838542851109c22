CREATE TABLE `witnesses` (
	`key` text PRIMARY KEY NOT NULL,
	`origin` text,
	`size` integer,
	`root` text,
	`line` text,
	`at` integer,
	`refusal` text,
	`refused_at` integer,
	`detail` text,
	`failing` text,
	`tries` integer DEFAULT 0 NOT NULL,
	`due` integer DEFAULT 0 NOT NULL
);
